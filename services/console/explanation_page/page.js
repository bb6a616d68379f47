"use strict";
(() => {
  // Looked up anew each time: the console puts a new explanation in the place of an old one while a run goes on.
  const shown = () => [...document.querySelectorAll("details.decision")];

  // Copies an id, or the text of another element; where the browser keeps its clipboard to itself, that is left selected.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    const copyOf = document.getElementById(button.dataset.copyOf);
    let copied = true;
    try {
      await navigator.clipboard.writeText(copyOf ? copyOf.textContent : button.dataset.copy);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(copyOf ?? button.previousElementSibling);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      copied = document.execCommand("copy");
    }
    button.textContent = copied ? "copied" : "selected";
    button.classList.add("done");
    setTimeout(() => { button.textContent = "copy"; button.classList.remove("done"); }, 1500);
  });

  function goTo(decision) {
    for (const each of shown()) each.classList.toggle("current", each === decision);
    decision.querySelector("summary").focus({ preventScroll: true });
    decision.scrollIntoView({ block: "nearest" });
  }
  function openNamed() {
    const named = document.getElementById(location.hash.slice(1));
    if (!named || !named.matches("details.decision")) return;
    named.open = true;
    goTo(named);
  }
  addEventListener("hashchange", openNamed);
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#decision-"]');
    if (link && link.getAttribute("href") === location.hash) openNamed();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const decisions = shown();
    const at = decisions.findIndex((each) => each.classList.contains("current"));
    if (event.key === "j" && at + 1 < decisions.length) goTo(decisions[at + 1]);
    else if (event.key === "k" && at > 0) goTo(decisions[at - 1]);
    else if (event.key === "a") {
      const open = decisions.some((each) => !each.open);
      for (const each of decisions) each.open = open;
    }
  });
  // On paper nothing can be opened any more.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = shown().filter((each) => !each.open);
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of opened) each.open = false; });
  openNamed();
  whatIf();
  document.addEventListener("explained", whatIf);
})();

// Tries other limits on the run's decisions, by the tables in the page's data.
function whatIf() {
  const sliders = document.getElementById("sliders");
  if (!sliders) return;
  const data = JSON.parse(document.getElementById("data").textContent);
  const decisions = [...document.querySelectorAll("details.decision")];
  const asItWas = Object.fromEntries(data.limits.map((limit) => [limit.name, limit.value]));
  const limits = { ...asItWas };
  const verdict = document.getElementById("verdict"), reset = document.getElementById("reset");
  const untouched = verdict.textContent;

  function decided(decision, under) {
    try {
      return decide(data.tables[decision.router], decision.facts, under);
    } catch {
      return null;
    }
  }
  // Decisions that the tables here would not make again, under the run's own limits, say nothing about other ones.
  const known = data.decisions.filter((each) => {
    const again = data.tables[each.router] && decided(each, asItWas);
    return again && again.rule === each.rule && again.destination === each.destination;
  });
  // What a limit is held against is what its slider must reach.
  function reached(name) {
    const values = [];
    (function walk(node) {
      if (!Array.isArray(node)) return;
      const [, left, right] = node;
      for (const [one, other] of [[left, right], [right, left]]) {
        if (!Array.isArray(one) || one[0] !== "limit" || one[1] !== name || !Array.isArray(other)) continue;
        for (const each of known) if (other[0] === "fact" && typeof each.facts[other[1]] === "number") values.push(each.facts[other[1]]);
      }
      node.forEach(walk);
    })(Object.values(data.tables).flat().map((rule) => [rule.when, ...rule.ways.map((way) => way[0])]));
    return values;
  }
  function told() {
    const moved = data.limits.filter((limit) => limits[limit.name] !== limit.value);
    reset.hidden = !moved.length;
    for (const each of decisions) {
      each.classList.remove("left", "moot");
      each.querySelector(".other").hidden = true;
    }
    verdict.className = "";
    if (!moved.length) { verdict.textContent = untouched; return; }
    for (const decision of known) {
      const other = decided(decision, limits);
      if (other.destination === decision.destination && other.rule === decision.rule) continue;
      const shown = document.getElementById("decision-" + decision.sequence), note = shown.querySelector(".other");
      const place = other.destination === "__end__" ? "the end" : other.destination;
      const elsewhere = other.destination !== decision.destination;
      note.textContent = "would be " + other.rule + " → " + place;
      note.hidden = false;
      if (!elsewhere) continue;
      shown.classList.add("left");
      const after = data.charges.filter((charge) => charge.sequence >= decision.sequence);
      const sum = (name) => after.reduce((total, charge) => total + charge[name], 0);
      for (const each of decisions) if (Number(each.dataset.sequence) > decision.sequence) each.classList.add("moot");
      verdict.className = "elsewhere";
      verdict.textContent = "The run would have left its way at decision " + decision.sequence + ": " + other.rule + " → " + place +
        " instead of " + decision.rule + " → " + (decision.destination === "__end__" ? "the end" : decision.destination) +
        ". After it, it spent " + sum("tokens").toLocaleString("en") + " tokens, " + sum("models") + (sum("models") === 1 ? " model call and " : " model calls and ") +
        (sum("ms") / 1000).toFixed(2) + " s. What it would have found there instead, nobody knows.";
      return;
    }
    verdict.className = "same";
    verdict.textContent = "The run would have gone the same way" +
      (known.length < data.decisions.length ? ", as far as " + known.length + " of its " + data.decisions.length + " decisions can be made again." : ".");
  }
  for (const limit of data.limits) {
    if (typeof limit.value !== "number") continue;
    const row = document.createElement("div"), label = document.createElement("label"), name = document.createElement("code");
    const output = document.createElement("output"), input = document.createElement("input");
    const farthest = Math.max(limit.value * 2, ...reached(limit.name).map((value) => value + 1), limit.whole ? 4 : 1);
    row.className = "limit";
    input.type = "range";
    input.id = "limit-" + limit.name;
    input.min = limit.least ?? 0;
    input.max = limit.most === null ? farthest : Math.min(limit.most, farthest);
    input.step = limit.whole ? 1 : "any";
    input.value = limit.value;
    label.htmlFor = input.id;
    name.textContent = limit.name;
    function show() {
      output.textContent = limit.whole ? String(limits[limit.name]) : String(Math.round(limits[limit.name] * 1000) / 1000);
      row.classList.toggle("moved", limits[limit.name] !== limit.value);
    }
    input.addEventListener("input", () => {
      // What is as near as a slider shows is the limit itself; whole numbers are steps, each its own.
      const at = Number(input.value);
      const isNear = !limit.whole && Math.abs(at - limit.value) < (input.max - input.min) / 1000;
      limits[limit.name] = isNear ? limit.value : at;
      show();
      told();
    });
    reset.addEventListener("click", () => {
      // The button goes with what it takes back, and must not leave the keyboard's user nowhere.
      if (row.classList.contains("moved") && document.activeElement === reset) input.focus({ preventScroll: true });
      limits[limit.name] = limit.value;
      input.value = limit.value;
      show();
      told();
    });
    label.append(name, output);
    row.append(label, input);
    sliders.append(row);
    show();
  }
}
