"use strict";
// Filters of the list of runs under a name: an address each, kept by this browser and sent to nobody.
(() => {
  const section = document.getElementById("saved-filters");
  if (!section) return;
  const KEY = "signalbox.filters", MOST = 50, PLACES = ["page", "after"];
  const list = section.querySelector("ul"), form = section.querySelector("form"), told = section.querySelector("[role=status]");

  function read() {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
      return Array.isArray(kept) ? kept.filter(({ name, query }) => typeof name === "string" && typeof query === "string") : [];
    } catch {
      return [];
    }
  }
  function write(filters) {
    try {
      localStorage.setItem(KEY, JSON.stringify(filters));
      return true;
    } catch {
      told.textContent = "This browser keeps nothing; bookmark the page instead.";
      return false;
    }
  }
  function here() {
    const asked = new URLSearchParams(location.search);
    for (const [name, value] of [...asked]) if (!value || PLACES.includes(name)) asked.delete(name);
    return asked.toString();
  }
  function show() {
    const filters = read(), now = here();
    list.replaceChildren(...filters.map(({ name, query }) => {
      const item = document.createElement("li"), link = document.createElement("a"), gone = document.createElement("button");
      link.href = "/runs?" + query;
      link.textContent = name;
      if (query === now) link.setAttribute("aria-current", "true");
      gone.type = "button";
      gone.textContent = "×";
      gone.setAttribute("aria-label", `Forget ${name}`);
      gone.addEventListener("click", () => {
        if (write(read().filter((each) => each.name !== name))) told.textContent = `${name} is forgotten.`;
        show();
        (list.querySelector("a") ?? form.querySelector("input")).focus();
      });
      item.append(link, gone);
      return item;
    }));
    list.hidden = !filters.length;
    form.hidden = !now;
    section.hidden = list.hidden && form.hidden;
  }
  document.getElementById("filter-address")?.remove();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const input = form.querySelector("input"), name = input.value.trim();
    if (!name) return;
    const others = read().filter((each) => each.name !== name);
    if (others.length >= MOST) {
      told.textContent = `There are ${MOST} already; forget one first.`;
    } else if (write([...others, { name, query: here() }].sort((a, b) => a.name.localeCompare(b.name)))) {
      told.textContent = `Kept as ${name}, by this browser.`;
      input.value = "";
    }
    show();
  });
  show();
})();
