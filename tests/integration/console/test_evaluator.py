"""The page decides as the platform does: every table, all facts and limits, by the script that the page carries."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from signalbox.v1 import agent_outline_pb2, runs_pb2
from signalbox_routing.facts import as_dict
from signalbox_routing.table import Router

from services.console.explanation_page.decision_data import page_data
from services.runtime.api.outline_wire import rules_proto
from services.runtime.api.wire import struct_proto
from tests.fixtures.decided import ROUTERS, facts_of, first_rule, policies_of

# Up to here JSON's numbers are Python's.
EXACT = 2**53
LOOP = """
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { table, facts, limits } = JSON.parse(line);
  let told;
  try { told = decide(table, facts, limits); } catch (error) { told = { error: error.message }; }
  process.stdout.write(JSON.stringify(told) + "\\n");
});
"""


class Evaluator:
    """The page's evaluator, run by node."""

    def __init__(self, given: IO[str], told: IO[str]) -> None:
        self._given = given
        self._told = told

    def decide(self, table: Any, facts: Any, limits: Any) -> Any:
        """What the table decides."""
        self._given.write(json.dumps({"table": table, "facts": facts, "limits": limits}) + "\n")
        self._given.flush()
        return json.loads(self._told.readline())


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine")
    script = files("services.console.explanation_page").joinpath("evaluate.js").read_text("utf-8") + LOOP
    with subprocess.Popen([node, "-e", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin
        assert running.stdout
        yield Evaluator(running.stdin, running.stdout)
        running.stdin.close()
        assert running.wait(60) == 0


def on_the_page(router: Router[Any, Any], facts: Any) -> Any:
    """Table and facts as the page has them: over the wire, and into its data."""
    node = agent_outline_pb2.NodeOutline(node="n", router=router.name, rules=rules_proto(router))
    story = runs_pb2.RunExplanation(agent=agent_outline_pb2.AgentOutline(nodes=[node]))
    decision = runs_pb2.Decision(router=router.name, facts=struct_proto(as_dict(facts)))
    data = json.loads(json.dumps(page_data(story, [decision])))
    return data["tables"][router.name], data["decisions"][0]["facts"]


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much])
@given(data=st.data())
def test_the_page_names_the_first_rule_that_holds_and_where_it_leads(evaluator: Evaluator, data: st.DataObject) -> None:
    router = data.draw(st.sampled_from(ROUTERS))
    facts, policy = data.draw(facts_of(router)), data.draw(policies_of(router))
    values = [*as_dict(facts).values(), *as_dict(policy).values()]
    assume(all(not isinstance(value, int) or abs(value) <= EXACT for value in values))
    table, shown = on_the_page(router, facts)
    rule, destination = first_rule(router, facts, policy)
    assert evaluator.decide(table, shown, as_dict(policy)) == {"rule": rule.name, "destination": destination}


def test_a_fact_that_a_decision_lacks_is_not_made_up(evaluator: Evaluator) -> None:
    table = [{"rule": "r", "when": [">=", ["fact", "count"], ["limit", "most"]], "ways": [[["always"], "end"]]}]
    assert evaluator.decide(table, {}, {"most": 1}) == {"error": "no fact count"}
    assert evaluator.decide(table, {"constructor": 1}, {"most": 1}) == {"error": "no fact count"}
    assert evaluator.decide([{**table[0], "when": ["no such", 1, 2]}], {}, {}).keys() == {"error"}
