"""Dashboards, alerts and runbooks name values and settings that there are, and every panel says when to worry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from charts.dashboards.__main__ import BOARDS
from charts.dashboards.panels import CONSOLE, build
from tests.contract.deploy import services
from tests.contract.deploy.helm import CHART, ROOT, chart_values

VALUES = chart_values()
VALUE = re.compile(r"\bmetrics(?:\.[A-Za-z]+)+")
SETTING = re.compile(r"\bSIGNALBOX_[A-Z0-9_]+")


def texts() -> Iterator[tuple[str, str]]:
    """What people read beside a graph or when an alert fires, each with where it stands."""
    for board in BOARDS:
        for panel in board.panels:
            yield f"{board.uid}: {panel.title}", f"{panel.shows} {panel.worry}"
    for path in [*(CHART / "alerts").glob("*.yaml"), *(ROOT / "docs" / "runbooks").glob("*.md")]:
        yield str(path.relative_to(ROOT)), path.read_text()


def test_what_they_name_is_there() -> None:
    known = set().union(*(services.variables(service) for service in services.in_source()))
    unknown = list[str]()
    for place, text in texts():
        # Those of pages are held to what is read by tests/contract/test_documents.py.
        settings = set(SETTING.findall(text)) if not place.endswith(".md") else set[str]()
        unknown += [f"{place} names {name}" for name in settings - known]
        unknown += [f"{place} names {name}" for name in VALUE.findall(text) if not is_value(name)]
    assert not unknown


def is_value(name: str) -> bool:
    """Says whether the chart has a value of this name."""
    here: Any = VALUES
    for part in name.split("."):
        if part not in here:
            return False
        here = here[part]
    return True


def test_every_panel_says_what_it_shows_and_when_to_worry() -> None:
    for board in BOARDS:
        assert len({panel.title for panel in board.panels}) == len(board.panels)
        for panel in board.panels:
            assert panel.shows.endswith("."), panel.title
            assert panel.worry.endswith("."), panel.title
            assert len(panel.worry.split()) > 3, panel.title


def test_the_goals_of_the_dashboard_on_call_are_those_of_the_chart() -> None:
    goals = VALUES["metrics"]["rules"]["goals"]
    [board] = [board for board in BOARDS if board.numbers]
    assert {name: float(number) for name, (_, number) in board.numbers.items()} == {
        name: goals[name] for name in board.numbers
    }
    assert all(f'le="{goals["latencyS"]}"' in query.expr for query in board.panels[2].queries)


def test_a_threshold_is_a_line_in_grafana() -> None:
    for board in BOARDS:
        drawn = json.loads(JSONEncoder().encode(build(board)))["panels"]
        thresholds = {panel.title: panel.threshold for panel in board.panels if panel.threshold is not None}
        for panel in drawn:
            if panel.get("title") in thresholds:
                config = panel["fieldConfig"]["defaults"]
                assert config["thresholds"]["steps"][-1]["value"] == thresholds[panel["title"]]
                assert panel["type"] != "timeseries" or config["custom"]["thresholdsStyle"]["mode"] == "dashed"


def test_the_operations_page_says_at_which_port_the_links_lead_to_a_console() -> None:
    port = CONSOLE.rpartition(":")[2]
    assert f"signalbox console --port {port}" in (ROOT / "docs" / "operations.md").read_text()
