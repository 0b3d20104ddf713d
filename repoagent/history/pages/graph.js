"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const picture = document.querySelector("svg.neighbors");
  const panel = document.getElementById("evidence");
  const nodes = [...picture.querySelectorAll("[data-node]")];
  const links = [...picture.querySelectorAll("[data-link]")];
  const rows = [...document.querySelectorAll("tr[data-row]")];
  const resting = [...panel.childNodes];
  let chosen = null;

  // text only: a name or a subject never becomes markup
  const make = (kind, text, inside = []) => {
    const element = document.createElement(kind);
    if (text) element.textContent = text;
    element.append(...inside);
    return element;
  };
  const linksOf = (node) => data.links.map((link, at) => [link, at]).filter(([link]) => link.source === node || link.target === node);

  const commitList = (commits) => {
    const list = make("ol");
    for (const [date, short, author, subject] of commits) {
      const line = make("li", "", [make("time", date), make("code", short), subject || "(no subject)", " ", make("span", author)]);
      line.className = "commit";
      list.append(line);
    }
    return list;
  };

  const showNode = (node) => {
    const { path, summary, commits } = data.nodes[node];
    const parts = [make("h2", path), make("p", summary)];
    if (commits.length) parts.push(commitList(commits));
    const own = linksOf(node).filter(([link]) => link.mutual);
    if (own.length) {
      const list = make("div", "", [make("p", "and it changes with")]);
      list.className = "with";
      for (const [link, at] of own) {
        const other = link.source === node ? link.target : link.source;
        const button = make("button", `${data.nodes[other].path}: ${link.label}`);
        button.type = "button";
        button.addEventListener("click", () => showLink(at));
        list.append(button);
      }
      parts.push(list);
    }
    panel.replaceChildren(...parts);
  };
  const showLink = (at) => {
    const link = data.links[at];
    const names = `${data.nodes[link.source].path} and ${data.nodes[link.target].path}`;
    panel.replaceChildren(make("h2", names), make("p", link.label), commitList(link.commits));
  };

  const mark = (node) => {
    const near = new Set([node]);
    for (const [link] of linksOf(node)) near.add(link.source).add(link.target);
    nodes.forEach((one) => {
      const number = Number(one.dataset.node);
      one.classList.toggle("on", node !== null && near.has(number));
      one.classList.toggle("at", number === node);
      one.setAttribute("aria-pressed", String(number === node));
    });
    links.forEach((one) => {
      const link = data.links[Number(one.dataset.link)];
      one.classList.toggle("on", node !== null && (link.source === node || link.target === node));
    });
    rows.forEach((row) => row.classList.toggle("at", Number(row.dataset.row) === node));
    picture.classList.toggle("chosen", node !== null);
  };
  const choose = (node) => {
    chosen = node === chosen ? null : node;
    mark(chosen);
    if (chosen === null) panel.replaceChildren(...resting);
    else showNode(chosen);
  };
  const leave = () => {
    if (chosen === null) return;
    showNode(chosen);
  };

  for (const one of nodes) {
    const node = Number(one.dataset.node);
    one.addEventListener("mouseenter", () => showNode(node));
    one.addEventListener("mouseleave", leave);
    one.addEventListener("focus", () => showNode(node));
    one.addEventListener("click", (event) => { event.stopPropagation(); choose(node); });
    one.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(node); }
    });
  }
  for (const one of links) {
    one.addEventListener("mouseenter", () => showLink(Number(one.dataset.link)));
    one.addEventListener("mouseleave", leave);
  }
  for (const row of rows) {
    const node = Number(row.dataset.row);
    row.addEventListener("mouseenter", () => showNode(node));
    row.addEventListener("mouseleave", leave);
    row.querySelector("button").addEventListener("click", () => choose(node));
    row.querySelector("button").addEventListener("focus", () => showNode(node));
  }
  picture.addEventListener("click", () => { if (chosen !== null) choose(chosen); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && chosen !== null) choose(chosen); });
  const around = document.querySelector(".picture");
  picture.dataset.ready = "1";
  around.scrollLeft = (around.scrollWidth - around.clientWidth) / 2;
})();
