// The site's menu and search. The index (search.js) is a script, because a page that is opened as a file may fetch nothing.
"use strict";
(function () {
  const root = document.body.dataset.root;
  const menu = document.getElementById("menu"), shelves = document.getElementById("shelves");
  const input = document.getElementById("search"), found = document.getElementById("found");

  menu.addEventListener("click", () => {
    menu.setAttribute("aria-expanded", String(shelves.classList.toggle("open")));
  });
  const here = shelves.querySelector("[aria-current]");
  if (here && shelves.scrollHeight > shelves.clientHeight) { shelves.scrollTop = here.offsetTop - shelves.clientHeight / 2; }

  // A section fits if it has all words; words of its title count most, then those at a word's beginning. Guides come first.
  function score(section, words) {
    const title = section.title.toLowerCase(), text = section.text.toLowerCase();
    let sum = 0;
    for (const word of words) {
      const inTitle = title.includes(word) ? (title.startsWith(word) ? 40 : 20) : 0;
      const at = text.indexOf(word);
      if (!inTitle && at < 0) { return 0; }
      sum += inTitle + (at < 0 ? 0 : /[a-z0-9]/.test(text[at - 1] || " ") ? 1 : 5) + Math.min(5, text.split(word).length - 1);
    }
    return sum / (section.location.startsWith("reference/") ? 2 : section.location.startsWith("internals/") ? 1.5 : 1);
  }

  function excerpt(section, words) {
    const at = Math.max(0, section.text.toLowerCase().indexOf(words[0]) - 50);
    const small = document.createElement("small");
    const piece = (at ? "... " : "") + section.text.slice(at, at + 170);
    const pattern = new RegExp("(" + words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|") + ")", "gi");
    for (const part of piece.split(pattern)) {
      const mark = words.includes(part.toLowerCase());
      const node = mark ? document.createElement("mark") : document.createTextNode(part);
      if (mark) { node.textContent = part; }
      small.append(node);
    }
    return small;
  }

  function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter((word) => word.length > 1);
    found.replaceChildren();
    found.hidden = words.length === 0;
    if (found.hidden) { return; }
    const fitting = window.tide_pages.map((section) => [score(section, words), section]).filter(([points]) => points > 0);
    fitting.sort((a, b) => b[0] - a[0]);
    for (const [, section] of fitting.slice(0, 12)) {
      const link = document.createElement("a"), title = document.createElement("b"), item = document.createElement("li");
      link.href = root + "/" + section.location;
      title.textContent = section.page && section.page !== section.title ? section.page + ": " + section.title : section.title;
      link.append(title, excerpt(section, words));
      item.append(link);
      found.append(item);
    }
    if (fitting.length === 0) { found.append(Object.assign(document.createElement("li"), { textContent: "No page has all of these words." })); }
  }

  input.addEventListener("input", search);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement.tagName !== "INPUT") {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape") {
      input.value = "";
      search();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !found.hidden) {
      const links = [...found.querySelectorAll("a")], at = links.indexOf(document.activeElement);
      const next = links[at + (event.key === "ArrowDown" ? 1 : -1)];
      if (next || event.key === "ArrowUp") { event.preventDefault(); (next || input).focus(); }
    } else if (event.key === "Enter" && document.activeElement === input && found.querySelector("a")) {
      location.href = found.querySelector("a").href;
    }
  });
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) { found.hidden = true; } });
})();
