"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const picture = document.querySelector("svg.graph");
  const panel = document.getElementById("evidence");
  const find = document.getElementById("find");
  const hits = document.getElementById("hits");
  const own = document.getElementById("own");
  const resting = [...panel.childNodes];
  const byNumber = (name) => new Map([...document.querySelectorAll(`[data-${name}]`)].map((one) => [Number(one.dataset[name]), one]));
  const nodes = byNumber("node");
  const links = byNumber("link");
  const rows = byNumber("row");
  const near = data.nodes.map(() => []);
  data.links.forEach(([source, target, label, strength], at) => {
    near[source].push([target, label, strength, at]);
    near[target].push([source, label, strength, at]);
  });
  near.forEach((list) => list.sort((a, b) => b[2] - a[2]));
  let pinned = null;

  // text only: a name or a subject never becomes markup
  const make = (kind, text, inside = []) => {
    const element = document.createElement(kind);
    if (text) element.textContent = text;
    element.append(...inside);
    return element;
  };
  const commitList = (commits) => make("ol", "", commits.map(([date, short, author, subject]) =>
    make("li", "", [make("time", date), make("code", short), subject || "(no subject)", " ", make("span", author)])));
  const mark = (files, at = null) => {
    const on = new Set(files);
    nodes.forEach((node, number) => {
      node.classList.toggle("on", on.has(number));
      node.classList.toggle("at", number === at);
      if (node.hasAttribute("role")) node.setAttribute("aria-pressed", String(number === pinned));
    });
    links.forEach((link, number) => link.classList.toggle("on", at !== null && data.links[number].slice(0, 2).includes(at)));
    rows.forEach((row, number) => row.classList.toggle("at", number === at));
    picture.classList.toggle("chosen", files !== null);
    own.replaceChildren();
  };
  const line = (one, other) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const [, , x1, y1] = data.nodes[one], [, , x2, y2] = data.nodes[other];
    for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) path.setAttribute(name, value);
    return path;
  };
  const show = (file) => {
    const [path, summary, , , commits] = data.nodes[file];
    const partners = near[file].map(([other, label]) => {
      const button = make("button", `${data.nodes[other][0]}: ${label}`);
      button.type = "button";
      button.addEventListener("click", () => pin(other));
      return button;
    });
    panel.replaceChildren(make("h2", path), make("p", summary), commitList(commits), make("p", partners.length ? "changes with" : ""), ...partners);
    mark([file, ...near[file].map(([other]) => other)], file);
    for (const [other, , , at] of near[file]) if (!links.has(at) && nodes.has(other)) own.append(line(file, other));
  };
  const showLink = (at) => {
    const [source, target, label, , commits] = data.links[at];
    panel.replaceChildren(make("h2", `${data.nodes[source][0]} and ${data.nodes[target][0]}`), make("p", label), commitList(commits));
  };
  const matching = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return null;
    return data.nodes.flatMap(([path], file) => (words.every((word) => path.toLowerCase().includes(word)) ? [file] : []));
  };
  const rest = () => {
    if (pinned !== null) return show(pinned);
    panel.replaceChildren(...resting);
    const files = matching();
    hits.textContent = files === null ? "" : `${files.length} file${files.length === 1 ? "" : "s"}`;
    mark(files);
  };
  const pin = (file) => {
    pinned = file === pinned ? null : file;
    rest();
  };

  const listen = (element, onShow, onPin) => {
    element.addEventListener("mouseenter", onShow);
    element.addEventListener("mouseleave", rest);
    element.addEventListener("focusin", onShow);
    if (onPin) element.addEventListener("click", (event) => { event.stopPropagation(); onPin(); });
  };
  nodes.forEach((node, file) => {
    listen(node, () => show(file), () => pin(file));
    node.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pin(file); }
    });
  });
  links.forEach((link, at) => listen(link, () => showLink(at)));
  rows.forEach((row, file) => listen(row, () => show(file), () => pin(file)));
  for (const area of document.querySelectorAll("[data-area]")) {
    const members = [...area.querySelectorAll("[data-node]")].map((node) => Number(node.dataset.node));
    let at = -1;
    area.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) {
        at = at < 0 && step < 0 ? members.length - 1 : (at + step + members.length) % members.length;
        show(members[at]);
      } else if ((event.key === "Enter" || event.key === " ") && at >= 0) pin(members[at]);
      else return;
      event.preventDefault();
    });
    area.addEventListener("blur", () => { at = -1; rest(); });
  }
  find.addEventListener("input", () => { pinned = null; rest(); });
  find.addEventListener("keydown", (event) => {
    const files = matching();
    if (event.key === "Enter" && files && files.length) pin(files[(files.indexOf(pinned) + 1) % files.length]);
  });
  picture.addEventListener("click", () => { if (pinned !== null) pin(pinned); });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    find.value = "";
    pinned = null;
    rest();
  });
  const around = document.querySelector(".picture");
  picture.dataset.ready = "1";
  around.scrollLeft = (around.scrollWidth - around.clientWidth) / 2;
})();
