"""What operators size by are the figures that were measured, and what the chart asks for is what the page says."""

from __future__ import annotations

import re

from tests.contract.deploy.helm import ROOT, chart_values

CAPACITY = (ROOT / "docs" / "capacity.md").read_text()
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text()
VALUES = chart_values()
SIZING = CAPACITY.partition("## How much a replica carries")[2].partition("\n## ")[0]
MEMORY = PERFORMANCE.partition("## Memory of a replica")[2].partition("\n## ")[0]
MEBIBYTES = {"Mi": 1, "Gi": 1024}


def test_cpu_is_what_was_measured() -> None:
    said = PERFORMANCE.partition("ms are those of the ")[2].partition(".\n")[0].partition("). ")[0] + ")"
    measured = {name.lower(): float(ms) for name, ms in re.findall(r"(\w+) \(([\d.]+)\)", said)}
    rows = re.findall(r"^\| ([\w' ]+) \| ([\d.]+) \| (\d+) \|$", SIZING, flags=re.MULTILINE)
    told = {name.rpartition(" ")[2].lower(): float(ms) for name, ms, _ in rows}
    assert told == measured
    assert all(round(1000 / float(ms)) == int(runs) for _, ms, runs in rows)


def test_memory_is_what_was_measured_and_what_the_chart_asks_for() -> None:
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|$", MEMORY, flags=re.MULTILINE)
    told = {name: int(most) for name, most, _, _ in rows}
    assert f"{told.pop('runtime')} MiB a replica of the runtime and {max(told.values())} or less" in SIZING
    for name, most, asked, allowed in rows:
        resources = VALUES["serviceDefaults"]["resources"] | VALUES["services"][name].get("resources", {})
        assert mebibytes(resources["requests"]["memory"]) == int(asked) >= int(most)
        assert mebibytes(resources["limits"]["memory"]) == int(allowed)


def mebibytes(quantity: str) -> int:
    """A quantity of memory as Kubernetes writes it."""
    return int(quantity[:-2]) * MEBIBYTES[quantity[-2:]]
