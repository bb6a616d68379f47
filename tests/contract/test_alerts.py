"""Each alert is a file with a runbook, a unit test of promtool's and a fault that makes it fire."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from starlette.datastructures import QueryParams

from services.console import decision_pages, question_pages, run_pages
from services.console.filters import Filters
from tests.contract.deploy.helm import CHART, ROOT, HelmError
from tests.fixtures.alert_rules import ALERT_NAMES, rendered_rules
from tests.fixtures.prometheus import needs_promtool

UNIT_TESTS = Path(__file__).parent / "alerts"
RUNBOOKS = ROOT / "docs" / "runbooks"
FAULTS = ROOT / "tests" / "chaos" / "test_alerts.py"
PAGES = {"/runs": run_pages.FIELDS, "/questions": question_pages.FIELDS, "/decisions": decision_pages.FIELDS}
HEADINGS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]

alerts = pytest.mark.parametrize("name", ALERT_NAMES)


@cache
def rules() -> dict[str, dict[str, Any]]:
    """Every alert as the chart renders it by default, with a bound of what an hour may cost."""
    return {rule["alert"]: rule for rule in rendered_rules(goals={"costPerHour": 10})}


def names_in(folder: Path, suffix: str) -> list[str]:
    """What the files of a folder are called."""
    return sorted(path.stem for path in folder.glob(f"*{suffix}"))


def test_alerts_runbooks_and_unit_tests_are_of_the_same_names() -> None:
    assert sorted(rules()) == ALERT_NAMES
    assert names_in(RUNBOOKS, ".md") == ALERT_NAMES
    assert names_in(UNIT_TESTS, ".yaml") == ALERT_NAMES


def test_every_alert_is_made_to_fire_by_a_fault() -> None:
    assert sorted(set(re.findall(r'"(Signalbox[A-Za-z]+)"', FAULTS.read_text()))) == ALERT_NAMES


@alerts
def test_an_alert_says_what_it_is_and_where_to_read_on(name: str) -> None:
    rule = rules()[name]
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert set(rule["annotations"]) - {"console_url"} == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{name}.md"
    assert "${" not in json.dumps(rule), "a placeholder that no value fills"


@pytest.mark.parametrize("name", [name for name in ALERT_NAMES if "console_url" in rules()[name]["annotations"]])
def test_the_console_has_the_filter_that_an_alert_leads_to(name: str) -> None:
    """A label is known when the alert fires; a time, a state and a field are known now."""
    address = re.sub(r"\{\{ \(query[^}]+\}\}", "2026-03-02T09:30Z", rules()[name]["annotations"]["console_url"])
    where = urlsplit(address)
    filters = Filters.of(QueryParams(where.query), PAGES[where.path])
    if "state" in filters.texts:
        filters.state("state")
    since, until = (filters.time(each) if each in filters.texts else None for each in ("since", "until"))
    assert filters.problems == {}
    assert (since is None) == (until is None), "as of the alert, and not of when somebody reads it"
    assert since is None or until is None or since.seconds < until.seconds
    labels = set(re.findall(r"\$labels\.(\w+)", where.query))
    assert all(f"by ({label})" in rules()[name]["expr"] for label in labels)


@needs_promtool
def test_the_console_is_asked_of_the_time_of_the_alert(tmp_path: Path) -> None:
    url = rules()["SignalboxSuccessBurnsFast"]["annotations"]["console_url"]
    rule = {"alert": "Failing", "expr": "vector(1)", "annotations": {"console_url": url}}
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "signalbox", "rules": [rule]}]}))
    told = url.partition("/runs?")[0] + "/runs?state=failed&since=1h+before+1970-01-01T00:05Z&until=1970-01-01T00:05Z"
    expected = {"eval_time": "5m", "alertname": "Failing", "exp_alerts": [{"exp_annotations": {"console_url": told}}]}
    unit = {"rule_files": ["rules.json"], "tests": [{"interval": "1m", "alert_rule_test": [expected]}]}
    (tmp_path / "unit.json").write_text(json.dumps(unit))
    done = subprocess.run(
        ["promtool", "test", "rules", "unit.json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@alerts
def test_a_runbook_has_its_four_parts(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text()
    assert re.findall(r"^# (.+)$", text, flags=re.MULTILINE) == [name]
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == HEADINGS
    for part in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]:
        assert part.strip()


@needs_promtool
@alerts
def test_an_alert_fires_when_it_should_and_not_otherwise(name: str, tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "signalbox", "rules": [rules()[name]]}]}))
    unit = yaml.safe_load((UNIT_TESTS / f"{name}.yaml").read_text())
    expectations = [bool(each["promql_expr_test"][0]["exp_samples"]) for each in unit["tests"]]
    assert expectations[:2] == [True, False], "one case in which it fires, and one in which it nearly does"
    assert not any(expectations[1:])
    shutil.copy(UNIT_TESTS / f"{name}.yaml", tmp_path)
    done = subprocess.run(
        ["promtool", "test", "rules", f"{name}.yaml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_cost_is_no_alert_where_nobody_says_how_much_is_too_much(tmp_path: Path) -> None:
    [rule] = [each for each in rendered_rules() if each["alert"] == "SignalboxCostHigh"]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "signalbox", "rules": [rule]}]}))
    unit = yaml.safe_load((UNIT_TESTS / "SignalboxCostHigh.yaml").read_text())
    for each in unit["tests"]:
        each["promql_expr_test"][0]["exp_samples"] = []
    (tmp_path / "unit.json").write_text(json.dumps(unit))
    done = subprocess.run(
        ["promtool", "test", "rules", "unit.json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_service_that_is_installed_is_missed_when_nobody_sees_it() -> None:
    def watched(**values: Any) -> set[str]:
        [rule] = [each for each in rendered_rules(values) if each["alert"] == "SignalboxServiceGone"]
        return set(re.findall(r'absent\(signalbox_build_info{namespace="signalbox",service="(\w+)"}\)', rule["expr"]))

    ours = {"gateway", "runtime", "guard", "sql_executor", "code_executor", "evaluator"}
    assert watched() == ours
    for off in ("batches", "graph_executor"):
        assert watched(services={off: {"enabled": True}}) == {*ours, off}
    assert watched(services={"runtime": {"replicas": 0}}) == ours - {"runtime"}
    from_outside = {"image": "registry.example.com/tide:2"}
    assert watched(services={"tide_table": from_outside}) == ours


def test_replicas_are_missed_where_there_are_to_be_several() -> None:
    scaled = {"by": "cpu", "minReplicas": 4}
    values = {"services": {"guard": {"replicas": 1}, "gateway": {"autoscaling": scaled}}}
    [rule] = [each for each in rendered_rules(values) if each["alert"] == "SignalboxReplicasMissing"]
    bounds = dict(re.findall(r'service="(\w+)"}\)\)\[30m:\]\) <= ([0-9.]+)', rule["expr"]))
    assert bounds == {
        "gateway": "3.5",
        "runtime": "2.5",
        "sql_executor": "1.5",
        "code_executor": "1.5",
        "evaluator": "1.5",
    }


def test_an_alert_can_be_left_out_and_an_unknown_one_not() -> None:
    rest = {rule["alert"] for rule in rendered_rules(disabled=["SignalboxClockOff"])}
    assert set(ALERT_NAMES) - rest == {"SignalboxClockOff"}
    with pytest.raises(HelmError, match="names SignalboxClockOf, which is none of"):
        rendered_rules(disabled=["SignalboxClockOf"])


def test_the_folder_of_alerts_holds_nothing_else() -> None:
    assert {path.suffix for path in (CHART / "alerts").iterdir()} == {".yaml"}
