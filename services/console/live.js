"use strict";
// Goes along with a run: when the console says that there is something new, asks for the page again and puts it in place of
// what is shown, with what was opened, moved and focused as it was.
(() => {
  const shown = document.getElementById("live-run");
  if (!shown || !shown.dataset.events) return;
  const address = shown.dataset.events;
  const GATHER_MS = 250, AGAIN_MS = 2000;
  let source = null, planned = 0, isAsking = false, isStale = false, isOver = false, isPressed = false;

  function say(words, isAway) {
    const live = document.getElementById("live");
    live.classList.toggle("away", isAway);
    live.textContent = words;
  }
  function offer(link) {
    if (!link) return;
    const login = document.importNode(link, true);
    login.setAttribute("href", `${link.getAttribute("href")}?${new URLSearchParams({ from: location.pathname + location.search })}`);
    document.getElementById("live").append(" ", login);
  }
  function plan(after_ms) {
    if (!planned) planned = setTimeout(() => { planned = 0; refresh(); }, after_ms);
  }
  async function refresh() {
    if (isAsking) { isStale = true; return; }
    isAsking = true;
    try {
      const response = await fetch(location.pathname, { credentials: "same-origin" });
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      const next = fresh.getElementById("live-run");
      if (response.ok && next && isPressed) plan(GATHER_MS);
      else if (response.ok && next) put(next);
      else {
        say(fresh.querySelector("h1")?.textContent ?? "The console has failed.", true);
        if ([401, 403].includes(response.status)) { stop(); offer(fresh.querySelector('a[href="/login"]')); }
        if ([429, 503, 504].includes(response.status)) plan(AGAIN_MS);
      }
    } catch {
      say("The console does not answer.", true);
      plan(AGAIN_MS);
    } finally {
      isAsking = false;
      if (isStale) { isStale = false; plan(GATHER_MS); }
    }
  }
  function put(next) {
    const open = [...shown.querySelectorAll("details[open]")].map((each) => each.id);
    const current = shown.querySelector("details.current")?.id;
    const moved = [...shown.querySelectorAll(".limit.moved input")].map((each) => [each.id, each.value]);
    const focused = document.activeElement;
    const focusedId = shown.contains(focused) ? focused.id || focused.closest("details")?.id : "";
    shown.replaceChildren(...next.childNodes);
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    if (current) document.getElementById(current)?.classList.add("current");
    document.dispatchEvent(new Event("explained"));
    for (const [id, value] of moved) {
      const input = document.getElementById(id);
      if (!input) continue;
      input.value = value;
      input.dispatchEvent(new Event("input"));
    }
    if (focusedId) {
      const found = document.getElementById(focusedId);
      (found?.matches("details") ? found.querySelector("summary") : found)?.focus({ preventScroll: true });
    }
    if (!next.dataset.events) stop();
  }
  // What models say while they say it, by message: shown until the step that it belongs to has ended, and then with the page.
  const MESSAGES = 8, LONGEST = 20000;
  const said = new Map();
  function hear(chunk) {
    const message = said.get(chunk.message) ?? { node: chunk.node, text: "", have: 0, provisional: chunk.provisional };
    if (chunk.offset + chunk.length <= message.have) return;
    // Who comes in the middle is told it once more; lengths are of code points.
    const fresh = [...chunk.text].slice(Math.max(0, message.have - chunk.offset)).join("");
    message.text = (message.text + (chunk.offset > message.have ? "…" : "") + fresh).slice(-LONGEST);
    message.have = chunk.offset + chunk.length;
    said.delete(chunk.message);
    said.set(chunk.message, message);
    while (said.size > MESSAGES) said.delete(said.keys().next().value);
    showSaid();
  }
  function forget(node) {
    for (const [id, message] of said) if (!node || message.node === node || message.node.startsWith(node + "/")) said.delete(id);
    showSaid();
  }
  function showSaid() {
    const saying = document.getElementById("saying");
    if (!saying) return;
    saying.hidden = !said.size;
    saying.querySelector("ul").replaceChildren(...[...said.values()].map((message) => {
      const item = document.createElement("li"), from = document.createElement("span"), text = document.createElement("p");
      from.className = "soft small";
      from.textContent = message.node + (message.provisional ? ", still to be checked" : "");
      text.className = "words";
      text.dir = "auto";
      text.textContent = message.text;
      item.append(from, text);
      return item;
    }));
  }
  function listen() {
    if (source || isOver || !address || document.hidden) return;
    source = new EventSource(address);
    source.addEventListener("open", () => { if (document.querySelector("#live.away")) plan(0); });
    source.addEventListener("said", (event) => hear(JSON.parse(event.data)));
    source.addEventListener("void", (event) => { const { node, stands } = JSON.parse(event.data); if (!stands) forget(node); });
    source.addEventListener("changed", (event) => { const { node } = JSON.parse(event.data); if (node) forget(node); plan(GATHER_MS); });
    source.addEventListener("ended", () => { forget(""); stop(); plan(0); });
    source.addEventListener("refused", () => { stop(); plan(0); });
    source.addEventListener("away", () => say("The gateway does not answer; trying again.", true));
    source.addEventListener("error", () => {
      say("The console does not answer; trying again.", true);
      // Closed for good is what was refused, as when the session has ended: the page anew says why.
      if (source && source.readyState === EventSource.CLOSED) { pause(); plan(0); setTimeout(listen, AGAIN_MS); }
    });
  }
  function pause() {
    source?.close();
    source = null;
  }
  function stop() {
    isOver = true;
    pause();
  }
  // A click that began on what is shown must end on it, or it is none.
  addEventListener("pointerdown", () => { isPressed = true; });
  for (const end of ["pointerup", "pointercancel", "blur"]) addEventListener(end, () => { isPressed = false; });
  // A browser gives a host few connections: pages in the background take none.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) pause();
    else if (!isOver) listen();
  });
  addEventListener("pagehide", pause);
  listen();
})();
