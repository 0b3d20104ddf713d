"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const picture = document.querySelector("svg.map");
  const panel = document.getElementById("evidence");
  const find = document.getElementById("find");
  const hits = document.getElementById("hits");
  if (!picture) return;
  const own = document.getElementById("own");
  const resting = [...panel.childNodes];
  const dots = new Map([...picture.querySelectorAll(".dot")].map((dot) => [Number(dot.dataset.file), dot]));
  const near = data.files.map(() => []);
  for (const [one, other, together, score] of data.links) {
    near[one].push([other, together, score]);
    near[other].push([one, together, score]);
  }
  near.forEach((list) => list.sort((a, b) => b[2] - a[2]));
  let kept = null;

  // text only: a name never becomes markup
  const make = (kind, text, inside = []) => {
    const element = document.createElement(kind);
    if (text) element.textContent = text;
    element.append(...inside);
    return element;
  };
  const line = (one, other) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "line");
    path.setAttribute("class", "own");
    for (const [end, dot] of [["1", one], ["2", other]])
      for (const axis of ["x", "y"]) path.setAttribute(axis + end, dot.getAttribute("c" + axis));
    return path;
  };
  const mark = (files, at = null) => {
    const on = new Set(files);
    dots.forEach((dot, file) => {
      dot.classList.toggle("on", on.has(file));
      dot.classList.toggle("at", file === at);
    });
    picture.classList.toggle("marking", files !== null);
    own.replaceChildren();
  };
  const show = (file) => {
    const [path, commits, cluster] = data.files[file];
    const where = cluster === null ? "in no cluster" : `in the cluster ${data.clusters[cluster]}`;
    const parts = [make("h2", path), make("p", `${commits} commit${commits === 1 ? "" : "s"}, ${where}`)];
    for (const [other, together] of near[file]) {
      const button = make("button", "", [make("span", data.files[other][0]), make("span", String(together))]);
      button.type = "button";
      button.className = "partner";
      button.title = `${together} commits with ${data.files[other][0]}`;
      button.addEventListener("click", () => keep(other));
      parts.push(button);
    }
    panel.replaceChildren(...parts);
    mark([file, ...near[file].map(([other]) => other)], file);
    const dot = dots.get(file);
    for (const [other] of near[file]) if (dot && dots.has(other)) own.append(line(dot, dots.get(other)));
  };
  const rest = () => {
    if (kept !== null) return show(kept);
    panel.replaceChildren(...resting);
    search();
  };
  const keep = (file) => {
    kept = file === kept ? null : file;
    rest();
  };
  const found = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return null;
    return data.files.flatMap(([path], file) => (words.every((word) => path.toLowerCase().includes(word)) ? [file] : []));
  };
  const search = () => {
    const files = found();
    hits.textContent = files === null ? "" : `${files.length} file${files.length === 1 ? "" : "s"}`;
    mark(files);
  };

  dots.forEach((dot, file) => {
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = data.files[file][0];
    dot.append(title);
    dot.addEventListener("mouseenter", () => show(file));
    dot.addEventListener("mouseleave", rest);
    dot.addEventListener("click", (event) => { event.stopPropagation(); keep(file); });
  });
  for (const disc of picture.querySelectorAll(".disc")) {
    const members = [...disc.querySelectorAll(".dot")].map((dot) => Number(dot.dataset.file));
    let at = -1;
    disc.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) {
        at = at < 0 && step < 0 ? members.length - 1 : (at + step + members.length) % members.length;
        show(members[at]);
      } else if ((event.key === "Enter" || event.key === " ") && at >= 0) keep(members[at]);
      else return;
      event.preventDefault();
    });
    disc.addEventListener("blur", () => { at = -1; rest(); });
  }
  document.querySelectorAll("[data-to]").forEach((button) => button.addEventListener("click", () => keep(Number(button.dataset.to))));
  find.addEventListener("input", () => { kept = null; rest(); });
  find.addEventListener("keydown", (event) => {
    const files = found();
    if (event.key === "Enter" && files && files.length) keep(files[(files.indexOf(kept) + 1) % files.length]);
  });
  picture.addEventListener("click", () => { if (kept !== null) keep(kept); });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    find.value = "";
    kept = null;
    rest();
  });
  picture.dataset.ready = "1";
})();
