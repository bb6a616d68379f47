"""The library of tables by itself: how a table reads states, and what it imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.graph import MessagesState, StateGraph
from signalbox_routing import (
    END,
    Always,
    InvalidTableError,
    Router,
    Rule,
    Several,
    UnkeptFactsError,
    either,
    fact,
    named_by,
    terms,
)

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "services" / "routing"


@dataclass(frozen=True)
class Limits:
    """Limits of the table below."""

    max_rounds: int = 3


@dataclass(frozen=True)
class Known:
    """Facts of the table below."""

    has_messages: bool = fact(lambda state: state["messages"])
    calls_tools: bool = fact(lambda state: state["messages"][-1].tool_calls)
    rounds: int = fact(lambda state: state["rounds"])
    kind: str = fact(lambda state: state.get("kind"))


f, p = terms(Known), terms(Limits)
ROUTER = Router(
    "agent.route_after_model",
    facts=Known,
    policy=Limits(),
    rules=[
        Rule("nothing_said", to=END, when=~f.has_messages),
        Rule("max_rounds", to=END, when=f.calls_tools & (f.rounds >= p.max_rounds)),
        Rule("tools", to="tools", when=f.calls_tools),
        Rule("checked", to=Several("lint", "test"), when=f.kind.is_in(("code", "patch"))),
        Rule("as_kind", to=named_by(f.kind, ("draft", "letter")), when=f.kind.is_in(("draft", "letter"))),
        Rule("untitled", to=either("draft", f.kind == "", END), when=Always()),
    ],
)


def as_code(state: Any) -> Any:
    """The same, as a team would have written it."""
    if not state["messages"]:
        return END
    if state["messages"][-1].tool_calls:
        return END if state["rounds"] >= 3 else "tools"
    if state.get("kind") in ("code", "patch"):
        return ["lint", "test"]
    if state.get("kind") in ("draft", "letter"):
        return state["kind"]
    return "draft" if state.get("kind") == "" else END


def _outcome(route: Callable[[Any], Any], state: Any) -> Any:
    try:
        return route(state)
    except (KeyError, AttributeError, TypeError) as error:
        return type(error)


_message = st.builds(lambda calls: SimpleNamespace(tool_calls=calls), st.sampled_from([[], ["search"]]))
_values = st.sampled_from(["code", "draft", "letter", "", None, 3, "other" * 40])
_states = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(st.one_of(_message, st.none()), max_size=2),
        "rounds": st.one_of(st.integers(0, 5), st.none(), st.just(2.5)),
        "kind": _values,
    },
)


@given(state=_states)
def test_a_table_leads_where_the_same_ladder_of_conditions_leads_and_raises_what_it_raises(state: Any) -> None:
    assert _outcome(ROUTER, state) == _outcome(as_code, state)


@given(state=_states)
def test_kept_facts_decide_as_the_state_did_or_are_refused(state: Any) -> None:
    try:
        decision = ROUTER.decide(state)
    except (UnkeptFactsError, KeyError, AttributeError, TypeError):
        return
    assert decision.destination == ROUTER.decide_on(Known(**decision.facts)).destination
    assert len(decision.facts["kind"]) <= 80


def test_a_number_that_no_ledger_keeps_still_leads_where_it_should() -> None:
    state = {"messages": [SimpleNamespace(tool_calls=["search"])], "rounds": float("inf")}
    assert ROUTER(state) == END
    with pytest.raises(UnkeptFactsError, match=r"agent\.route_after_model"):
        ROUTER.decide(state)


def test_a_table_has_other_limits_also_of_a_record_made_of_its_own() -> None:
    @dataclass(frozen=True)
    class More(Limits):
        other: int = 1

    state = {"messages": [SimpleNamespace(tool_calls=["search"])], "rounds": 3}
    assert (ROUTER(state), ROUTER.under(More(max_rounds=9))(state)) == (END, "tools")
    with pytest.raises(InvalidTableError, match="max_rounds is not a field of"):
        ROUTER.under(Known)


def test_a_table_that_changes_state_is_for_a_node() -> None:
    rules = [replace(ROUTER.rules[0], then=lambda rule: {"stopped_by": rule}), *ROUTER.rules[1:]]
    changing = Router(ROUTER.name, facts=Known, policy=Limits(), rules=rules)
    with pytest.raises(InvalidTableError, match=r"return its `command\(state\)` from a node"):
        changing({"messages": []})
    command = changing.command({"messages": []})
    assert (command.update, command.goto) == ({"stopped_by": "nothing_said"}, (END,))


def test_a_fact_that_does_not_say_how_it_is_read_is_refused() -> None:
    @dataclass(frozen=True)
    class Unread:
        rounds: int

    with pytest.raises(InvalidTableError, match=r"Unread\.rounds does not say how it is read"):
        Router("agent.route", facts=Unread, rules=[Rule("end", to=END, when=Always())])


def test_it_imports_nothing_but_the_standard_library_and_langgraph() -> None:
    allowed = {*sys.stdlib_module_names, "langgraph", "langchain_core", "signalbox_routing"}
    for file in (LIBRARY / "signalbox_routing").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= allowed, file


def test_langgraph_draws_where_a_table_leads() -> None:
    graph = StateGraph(MessagesState)
    for node in ("model", "tools", "lint", "test", "draft", "letter", "unrelated"):
        graph.add_node(node, lambda _: {})
    graph.set_entry_point("model")
    graph.add_conditional_edges("model", ROUTER)
    drawn = {edge.target for edge in graph.compile().get_graph().edges if edge.source == "model"}
    assert drawn == {END, "tools", "lint", "test", "draft", "letter"}
