"use strict";
// What a person decides is kept in this page until it is saved: the page asks nobody anything.
const decided = new Map();
const bar = document.getElementById("decisions");
const form = document.querySelector("template").content.firstElementChild;

// Made when a finding is opened: for all of thousands they would take longer than the findings.
function offer(finding) {
  if (!finding.open || finding.querySelector("fieldset.decide")) return;
  const box = form.cloneNode(true);
  for (const choice of box.querySelectorAll("input[type=radio]")) choice.name = `case-${finding.dataset.fingerprints}`;
  finding.querySelector(".body").append(box);
}
document.addEventListener("toggle", (event) => offer(event.target), true);
document.querySelectorAll("details[open]").forEach(offer);

document.addEventListener("input", (event) => {
  const box = event.target.closest("fieldset.decide");
  if (!box) {
    document.body.dataset[event.target.name] = event.target.value;
    return;
  }
  const said = box.querySelector("input[type=radio]:checked");
  const { fingerprints, was } = box.closest("details").dataset;
  const reason = box.querySelector("input[type=text]").value.trim();
  for (const fingerprint of JSON.parse(fingerprints)) {
    if (said && reason) {
      decided.set(fingerprint, {
        fingerprint,
        is_vulnerable: said.value === "weakness",
        reason,
        was,
        decided_on: new Date().toISOString().slice(0, 10),
      });
    } else {
      decided.delete(fingerprint);
    }
  }
  bar.querySelector("b").textContent = decided.size;
  bar.hidden = decided.size === 0;
});

bar.querySelector("button").addEventListener("click", () => {
  // Each line is JSON, which is YAML too.
  const lines = [...decided.values()].map((each) => `- ${JSON.stringify(each)}\n`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines, { type: "application/yaml" }));
  link.download = "decisions.yaml";
  link.click();
  URL.revokeObjectURL(link.href);
});
