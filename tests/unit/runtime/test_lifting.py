"""Tables lifted from path functions: what can be lifted says the same as its function, and runs none of its code."""

from __future__ import annotations

import abc
import enum
import functools
import logging
import numbers
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol, runtime_checkable
from unittest.mock import Mock

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import tools_condition
from langgraph.types import Send
from pydantic import BaseModel
from signalbox_routing.facts import as_dict
from signalbox_routing.table import Router
from signalbox_routing.terms import InvalidTableError
from signalbox_routing.words import in_words

from services.runtime.commands import lift as lift_command
from services.runtime.commands import prove
from services.runtime.hosted.lifting.expressions import NotLiftedError
from services.runtime.hosted.lifting.lifted import (
    CHANGED,
    DISAGREED,
    MOST_TIME_S,
    NOT_EVALUATED,
    TABLES_DROPPED,
    LiftedRouter,
    lifted,
)
from services.runtime.hosted.lifting.looking import LONGEST_TEXT, MOST_ITEMS
from services.runtime.routing.reachable import unreached_rules
from tests.lifting.agreement import agreement, lift

STATES = 400
MAX_ROUNDS = 3
LIMITS = SimpleNamespace(most=4)
KNOWN = ("search", "read")
WAYS = {"a": "first", "b": "second"}
log = logging.getLogger(__name__)


class Route(enum.Enum):
    """Where to go."""

    LEFT = "left"
    RIGHT = "right"


class Kind(str, enum.Enum):  # noqa: UP042 - as teams write it
    """A text that has a name."""

    FULL = "full"


def ladder(state: Any) -> str:
    last = state["messages"][-1]
    if not last.tool_calls:
        return END
    if state["rounds"] >= MAX_ROUNDS:
        return "give_up"
    return "tools"


def with_messages(state: Any) -> str:
    """Its docstring."""
    print("deciding")  # noqa: T201 - as teams write it
    log.info("deciding on %s", state)
    messages = state["messages"]
    last = messages[-1] if messages else None
    if isinstance(last, AIMessage) and last.tool_calls:
        return "tools"
    if len(messages) > 6 or isinstance(last, (ToolMessage, HumanMessage)):
        return "summarise"
    return END


def with_get(state: Any) -> str:
    if state.get("error") is not None:
        return "mend"
    count = state.get("count", 0)
    return "again" if 0 < count < LIMITS.most and not state.get("done", False) else END


def with_membership(state: Any) -> str:
    tool = state["tool"].lower().strip()
    if tool in KNOWN:
        return "known"
    if "stop" in tool or tool.startswith(("end", "quit")):
        return "stop"
    return "unknown"


def with_match(state: Any) -> str:
    match state["kind"]:
        case "a" | "b":
            return "letter"
        case "c" if state["loud"]:
            return "loud"
        case _:
            return "other"


def with_enum(state: Any) -> str:
    if state["route"] == Route.LEFT:
        return Route.LEFT.value
    if state["kind"] == Kind.FULL:
        return "full"
    return "right"


def with_dispatch(state: Any) -> str:
    return WAYS.get(state["kind"], "third")


def with_dict_display(state: Any) -> str:
    return {True: "big", False: "small"}[len(state["items"]) > 5]


def with_place(state: Any) -> str:
    return "more" if state["done"] < len(state["plan"][state["phase"]]) else "enough"


def with_two_fields(state: Any) -> str:
    return "more" if state["done"] < state["wanted"] else "enough"


def with_arithmetic(state: Any) -> str:
    rounds = state["rounds"] + 1
    rounds += len(state["items"])
    return "stop" if rounds % 3 == 0 or rounds > 2 * MAX_ROUNDS else "go"


def with_tool_names(state: Any) -> str:
    calls = state["messages"][-1].tool_calls
    if len(calls) != 1:
        return "end"
    if calls[0]["name"] == "question":
        return "ask"
    return "draft" if calls[0]["name"] == "draft" else "other"


def with_whole_number(state: Any) -> str:
    if int(state.get("rounds", 0)) >= MAX_ROUNDS:
        return "stop"
    return "again" if int(state["wanted"] or 1) == 2 else "go"


def with_comprehension(state: Any) -> str:
    asked = sum(isinstance(each, HumanMessage) for each in state["messages"])
    if any(each.name == "final" for each in state["messages"] if isinstance(each, ToolMessage)):
        return "final"
    return "many" if asked >= 2 else "few"


def with_walrus(state: Any) -> str:
    if (count := state.get("count", 0)) and count > 2:
        return "many"
    return "some" if count else "none"


def with_raise(state: Any) -> str:
    if state["kind"] == "a":
        return "first"
    if state["kind"] == "b":
        return "second"
    raise ValueError(state["kind"])


def helper(messages: Any, *, most: int = 2) -> bool:
    return len(messages) >= most and not messages[-1].tool_calls


def with_helper(state: Any) -> str:
    return "end" if helper(state["messages"], most=3) else "on"


def with_several(state: Any) -> list[str] | str:
    return ["a", "b"] if state["both"] else "a"


def with_object(state: Any) -> str:
    return "review" if state.total > 50 or state.note == "ask" else "pay"


def closure(most: int) -> Callable[[Any], str]:
    def inside(state: Any) -> str:
        return "stop" if state["rounds"] > most else "go"

    return inside


def partial(state: Any, most: int) -> str:
    return "stop" if state["rounds"] > most else "go"


def decorated(function: Callable[[Any], str]) -> Callable[[Any], str]:
    @functools.wraps(function)
    def around(state: Any) -> str:
        return function(state)

    return around


class Ways:
    """Path functions as methods."""

    most = 2

    def __init__(self, least: int) -> None:
        self.least = least

    def method(self, state: Any) -> str:
        return "in" if self.least <= state["count"] <= self.most else self._other(state)

    def _other(self, state: Any) -> str:
        return "below" if state["count"] < self.least else "above"

    def __call__(self, state: Any) -> str:
        return "one" if state["count"] == self.least else "other"


async def asynchronous(state: Any) -> str:
    return "yes" if state["good"] else "no"


def shadowed(state: Any) -> str:
    len = state["size"]  # noqa: A001 - what this is about
    return "long" if len > 3 else "short"


LIFTED: dict[str, Any] = {
    each.__name__: each
    for each in (
        ladder, with_messages, with_get, with_membership, with_match, with_enum, with_dispatch, with_dict_display,
        with_place, with_two_fields, with_arithmetic, with_whole_number, with_comprehension, with_walrus, with_raise,
        with_helper, with_several, with_tool_names, with_object, asynchronous, shadowed, tools_condition,
    )
} | {
    "closure": closure(3),
    "partial": functools.partial(partial, most=3),
    "decorated": decorated(ladder),
    "method": Ways(1).method,
    "callable": Ways(1),
    "lambda": lambda state: END if state["kind"] == "draft" else "test",
}  # fmt: skip


@pytest.mark.parametrize("name", LIFTED)
def test_a_table_says_what_its_function_says(name: str) -> None:
    function = LIFTED[name]
    found = agreement(lift(function), function, count=STATES)
    assert found.decided > STATES / 2 or found.is_exhausted, found
    assert not found.disagreements
    assert len(found.rules) > 1, "one way only was gone"


def test_a_flag_is_a_place_in_a_list_as_in_the_code() -> None:
    for phase, way in ((False, "enough"), (True, "more")):
        state = {"plan": ["", "ab"], "phase": phase, "done": 0}
        assert lift(with_place).router.decide(state).destination == with_place(state) == way


def test_numbers_of_the_code_are_limits_by_the_names_they_have_there() -> None:
    router = lift(ladder).router
    assert router.policy.max_rounds == 3
    assert [in_words(rule.when, router.policy) for rule in router.rules] == [
        "not last_message_tool_calls", "rounds >= max_rounds (3)", "always",
    ]  # fmt: skip
    assert [rule.name for rule in router.rules] == ["to_end", "max_rounds", "to_tools"]
    assert lift(lambda state: "b" if state["score"] > 0.5 else "a").router.policy.score_limit == 0.5


def test_a_field_that_names_the_place_is_one_rule() -> None:
    ends = {"left": "left_node", "right": "right_node"}
    table = lift(lambda state: state["next"], ends)
    assert table.router.decide({"next": "right"}).destination == "right_node"
    assert agreement(table, lambda state: state["next"], ends, count=STATES).disagreements == []


def loops(state: Any) -> str:
    for each in state["items"]:
        if each:
            return "some"
    return "none"


def sends(state: Any) -> Any:
    return [Send("one", {"item": each}) for each in state["items"]]


def asks(state: Any) -> str:
    return "yes" if log.isEnabledFor(state["level"]) else "no"


def changes(state: Any) -> str:
    state["seen"] = True
    return "on"


def mutates(state: Any) -> str:
    state["items"].append(1)
    return "on"


def catches(state: Any) -> Any:
    try:
        return state["next"]
    except KeyError:
        return "none"


def doubles(state: Any) -> str:
    one = state["x"] + state["y"]
    two = one + one
    two = two + two
    two = two + two
    two = two + two
    two = two + two
    two = two + two
    two = two + two
    two = two + two
    two = two + two
    two = two + two
    return "on" if two > 3 else "off"


def generates(state: Any) -> Any:
    yield state["next"]


def itself(state: Any) -> str:
    return itself(state) if state["again"] else "on"


async def awaits(state: Any) -> str:
    return await asynchronous(state)


def takes_all(*states: Any) -> str:
    return "on" if states else "off"


def hides_len(state: Any) -> str:
    return "on" if len(state["items"]) else "off"


def text_together(state: Any) -> str:
    return f"node_{state['name']}"


def adds_to_unread(state: Any) -> str:
    level = log.getEffectiveLevel().real
    level += state["x"]
    return "on" if level > 3 else "off"


def names_unread_again(state: Any) -> str:
    level = log.getEffectiveLevel().real
    found = state["x"] and (level := state["y"])
    return "on" if level and found else "off"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (loops, "loops"),
        (sends, "sends packets"),
        (asks, "calls `log.isEnabledFor`, which"),
        (changes, "changes `state['seen']`"),
        (mutates, "calls `state['items'].append`"),
        (catches, "catches exceptions"),
        (generates, "is a generator"),
        (doubles, "asks too much at once"),
        (itself, "calls itself or goes too deep"),
        (awaits, "awaits something"),
        (takes_all, "takes any number of arguments"),
        (text_together, "puts a text together"),
        (adds_to_unread, "calls `log.getEffectiveLevel"),
        (names_unread_again, "calls `log.getEffectiveLevel"),
        (print, "is no function of Python's"),
        (lambda state: Ways(state["count"]).method(state), "calls `Ways"),
    ],
)
def test_what_cannot_be_lifted_says_why(function: Any, reason: str) -> None:
    with pytest.raises(NotLiftedError) as refused:
        lift(function)
    assert reason in str(refused.value)


def test_a_built_in_of_another_meaning_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(hides_len.__globals__, "len", lambda items: items[7])
    # It is a helper of the module's own, and put in as one.
    assert lift(hides_len).router.decide({"items": [0, 0, 0, 0, 0, 0, 0, 0]}).destination == "off"


class Watched:
    """Whatever is asked of it, it notes."""

    def __init__(self) -> None:
        object.__setattr__(self, "asked", [])

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return True

    def __eq__(self, other: object) -> bool:
        self.asked.append("==")
        return True

    def __len__(self) -> int:
        self.asked.append("len")
        return 5

    def __bool__(self) -> bool:
        self.asked.append("bool")
        return True

    def __hash__(self) -> int:
        self.asked.append("hash")
        return 1

    def __iter__(self) -> Any:
        self.asked.append("iter")
        return iter(())

    def __getitem__(self, key: Any) -> Any:
        self.asked.append("item")
        return self

    def __gt__(self, other: object) -> bool:
        self.asked.append(">")
        return True


class Noisy(BaseModel):
    """A state with a property that does something."""

    total: int = 60

    @property
    def counted(self) -> int:
        ASKED.append("counted")
        return 1


class NoisyList(list[int]):
    """A list whose length is code."""

    def __len__(self) -> int:
        ASKED.append("len")
        return 9


ASKED: list[str] = []


def beside(function: Any) -> LiftedRouter:
    """A function's table, as a graph has it."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(dict)
    builder.add_node("node", lambda state: state)
    for name in ("on", "off"):
        builder.add_node(name, lambda state: state)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", function, ["on", "off"])
    return lifted(builder.compile(), "agent").routers["agent.route_after_node"]


@pytest.mark.parametrize(
    ("function", "state"),
    [
        (lambda state: "on" if state["x"] else "off", {"x": Watched()}),
        (lambda state: "on" if state["x"] == 3 else "off", {"x": Watched()}),
        (lambda state: "on" if state["x"] == "a" else "off", {"x": Watched()}),
        (lambda state: "on" if state["x"] > 3 else "off", {"x": Watched()}),
        (lambda state: "on" if len(state["x"]) > 3 else "off", {"x": Watched()}),
        (lambda state: "on" if int(state["x"]) > 3 else "off", {"x": Watched()}),
        (lambda state: "on" if state["x"].ready else "off", {"x": Watched()}),
        (lambda state: "on" if "a" in state["x"] else "off", {"x": Watched()}),
        (lambda state: "on" if "a" in state["x"] else "off", {"x": [Watched()]}),
        (lambda state: "on" if state["x"]["y"] else "off", {"x": Watched()}),
        (lambda state: "on" if state["x"].get("y") else "off", {"x": Watched()}),
        (lambda state: "on" if any(each for each in state["x"]) else "off", {"x": Watched()}),
        (lambda state: "on" if len(state["x"]) > 3 else "off", {"x": NoisyList()}),
        (lambda state: "on" if state["x"].counted else "off", {"x": Noisy()}),
        (lambda state: "on" if state["x"] in ("a", "b") else "off", {"x": Watched()}),
        (lambda state: "on" if WAYS.get(state["x"]) else "off", {"x": Watched()}),
    ],
)
def test_no_code_of_the_state_runs_for_a_table(function: Any, state: Any) -> None:
    ASKED.clear()
    table = beside(function)
    assert table.decision(state, {}, "on") is None
    assert "in use no more: it would have to look at" in table.off
    watched = state["x"][0] if type(state["x"]) is list else state["x"]
    assert (getattr(watched, "asked", []), ASKED) == ([], [])


@runtime_checkable
class Closes(Protocol):
    """What has a method."""

    def close(self) -> None:
        """Closes it."""


class Abstract(abc.ABC):
    """A class that others can be registered with."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes it."""


TEXT_OR_NUMBER = str | int


@pytest.mark.parametrize("kind", [Mapping, Closes, numbers.Number, Abstract, (str, Mapping), str | Mapping, list[int]])
def test_a_kind_that_has_a_say_in_what_is_one_of_it_is_not_lifted(kind: Any) -> None:
    with pytest.raises(NotLiftedError, match="asks whether something is of"):
        lift(lambda state: "on" if isinstance(state["x"], kind) else "off")


def test_a_kind_that_the_state_says_is_not_lifted() -> None:
    with pytest.raises(NotLiftedError, match="asks whether something is of the kind"):
        lift(lambda state: "on" if isinstance(state["x"], state["kind"]) else "off")


@pytest.mark.parametrize(("value", "way"), [("a", "on"), (3, "on"), (True, "on"), (None, "off"), (Noisy(), "off")])
def test_a_union_of_classes_is_asked_for_as_they_are(value: Any, way: str) -> None:
    table = beside(lambda state: "on" if isinstance(state["x"], TEXT_OR_NUMBER) else "off")
    assert table.decision({"x": value}, {}, way) is not None


def test_what_says_that_it_is_of_another_class_ends_a_table() -> None:
    table = beside(lambda state: "on" if isinstance(state["x"], Noisy) else "off")
    assert table.decision({"x": Mock(spec=Noisy)}, {}, "on") is None
    assert "Mock.__class__, which is code" in table.off


def test_a_field_of_a_model_is_looked_at_and_a_property_is_not() -> None:
    table = beside(lambda state: "on" if state["x"].total > 50 else "off")
    decision = table.decision({"x": Noisy()}, {}, "on")
    assert decision is not None
    assert decision.facts == {"x_total": 60}


def test_one_disagreement_ends_a_table() -> None:
    table = beside(lambda state: "on" if state["x"] else "off")
    count = TABLES_DROPPED.labels(DISAGREED)
    before = count._value.get()
    assert table.decision({"x": 1}, {}, "on") is not None
    assert table.decision({"x": 1}, {}, "off") is None
    assert table.off.endswith("it led to on where the code led to off")
    assert table.decision({"x": 1}, {}, "on") is None
    assert count._value.get() == before + 1


CHANGING = 3
CHANGING_LIST = ["a"]


@pytest.mark.parametrize(
    ("function", "state", "change"),
    [
        (lambda state: "on" if state["x"] > CHANGING else "off", {"x": 9}, lambda names: names.update(CHANGING=5)),
        (lambda state: "on" if state["x"] in CHANGING_LIST else "off", {"x": "a"},
         lambda names: names["CHANGING_LIST"].append("b")),
        (lambda state: "on" if state["x"] > LIMITS.most else "off", {"x": 9},
         lambda names: vars(names["LIMITS"]).update(most=7)),
    ],
)  # fmt: skip
def test_a_limit_that_changes_in_the_code_ends_its_table(
    function: Any, state: Any, change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = function.__globals__
    monkeypatch.setitem(names, "CHANGING", 3)
    monkeypatch.setitem(names, "CHANGING_LIST", ["a"])
    monkeypatch.setitem(names, "LIMITS", SimpleNamespace(most=4))
    table = beside(function)
    assert table.decision(state, {}, "on") is not None
    change(names)
    # Both would still come to the same: but what is said of the limit is true no more.
    assert table.decision(state, {}, "on") is None
    assert "is not what it was" in table.off


def test_a_list_that_changes_before_the_first_decision_ends_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "CHANGING_LIST", ["a"])
    table = beside(lambda state: "on" if state["x"] in CHANGING_LIST else "off")
    CHANGING_LIST.append("b")
    assert table.decision({"x": "a"}, {}, "on") is None
    assert "CHANGING_LIST is not what it was" in table.off


def test_what_is_never_asked_for_is_missed_by_nobody() -> None:
    table = beside(lambda state: "on" if state["first"] else "off" if state["second"]["third"] else "on")
    assert table.decision({"first": True}, {}, "on") is not None
    assert table.decision({"first": True, "second": None}, {}, "on") is not None


@pytest.mark.parametrize("odd", ["a\0b", "a\ud800b", "a\nb" * 50, "x" * 81])
def test_texts_that_a_ledger_does_not_keep_are_told_by_their_length(odd: str) -> None:
    table = beside(lambda state: "on" if state["x"] == "ready" else "off")
    decision = table.decision({"x": odd}, {}, "off")
    assert decision is not None
    assert decision.facts == {"x": f"({len(odd)} characters)"}
    # What is compared with such a text tells whether it is that one, and no more.
    compared = beside(lambda state: "on" if state["x"] == "a\0b" else "off")
    decision = compared.decision({"x": "a\0b"}, {}, "on")
    assert decision is not None
    assert list(decision.facts.values()) == [True]


def test_numbers_that_a_ledger_does_not_keep_end_a_table() -> None:
    for odd in (float("nan"), float("inf"), 2**60):
        table = beside(lambda state: "on" if state["x"] > 3 else "off")
        assert table.decision({"x": odd}, {}, "on") is None
        assert "a number that a ledger can't keep" in table.off


def graph_of(**functions: Callable[[Any], str]) -> Any:
    """A graph with a path function after each node."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(dict)
    for name in ("on", "off", *functions):
        builder.add_node(name, lambda state: state)
    for name, function in functions.items():
        builder.add_edge(START, name)
        builder.add_conditional_edges(name, function, ["on", "off"])
    return builder.compile()


@pytest.mark.parametrize("odd", [2**53, -(2**64), 10**400, float("inf"), float("nan")])
def test_a_limit_that_a_ledger_does_not_keep_costs_no_other_table(odd: float) -> None:
    def good(state: Any) -> str:
        return "on" if state["rounds"] >= MAX_ROUNDS else "off"

    found = lifted(graph_of(bad=lambda state: "on" if state["x"] > odd else "off", good=good), "agent")
    assert list(found.routers) == ["agent.route_after_good"]
    assert [each.reason for each in found.others] == ["it has the limit odd, a number that a ledger can't keep"]
    assert as_dict(found.limits) == {"max_rounds": MAX_ROUNDS}
    # Whether something is that number is asked all the same, and told as yes or no.
    same = beside(lambda state: "on" if state["x"] == odd else "off")
    decision = same.decision({"x": 3}, {}, "off")
    assert decision is not None
    assert list(decision.facts.values()) == [False]


def in_module(name: str, source: str, folder: Path) -> Callable[[Any], str]:
    """A path function called `way` of a module with this source."""
    file = folder / f"{name}.py"
    file.write_text(source)
    made = ModuleType(name)
    exec(compile(source, str(file), "exec"), vars(made))  # noqa: S102 - the test's own
    found: Callable[[Any], str] = made.way
    return found


@pytest.mark.parametrize("value", ["3", "300", "0.5"])
def test_a_limit_is_one_where_its_name_is_one(value: str, tmp_path: Path) -> None:
    way = 'def way(state):\n    return "on" if state["x"] > LIMIT else "off"\n'
    source = f"LIMIT = {value}\n{way}{way.replace('way', 'again')}"
    one, other = (in_module(name, source, tmp_path) for name in ("one", "other"))
    found = lifted(graph_of(a=one, b=other, c=one.__globals__["again"]), "agent")
    assert found.others == ()
    assert set(as_dict(found.limits)) == {"limit", "limit_2"}


@pytest.mark.parametrize("most", [3, 300])
def test_arguments_that_are_given_apart_are_limits_apart(most: int) -> None:
    def with_default(state: Any, most: int = most) -> str:
        return "on" if state["x"] > most else "off"

    ways: dict[str, Callable[[Any], str]] = {
        "a": with_default,
        "b": functools.partial(partial, most=most),
        "c": functools.partial(partial, most=most),
    }
    assert set(as_dict(lifted(graph_of(**ways), "agent").limits)) == {"most", "most_2", "most_3"}
    least = {"a": Ways(most).method, "b": Ways(most).method}
    assert set(as_dict(lifted(graph_of(**least), "agent").limits)) >= {"least", "least_2"}


def test_a_table_that_cannot_be_used_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Picky(Router[Any, Any]):
        def __init__(self, name: str, **rest: Any) -> None:
            if name.endswith("bad"):
                raise InvalidTableError("its rules make no sense")
            super().__init__(name, **rest)

    def way(state: Any) -> str:
        return "on" if state["x"] else "off"

    monkeypatch.setattr("services.runtime.hosted.lifting.lifted.Router", Picky)
    found = lifted(graph_of(bad=way, good=way), "agent")
    assert list(found.routers) == ["agent.route_after_good"]
    assert [each.reason for each in found.others] == ["it comes to no table: its rules make no sense"]


def test_long_lists_and_texts_are_not_gone_through() -> None:
    table = beside(lambda state: "on" if any(each.done for each in state["x"]) else "off")
    assert table.decision({"x": [SimpleNamespace(done=False)] * 2001}, {}, "off") is None
    assert "2,001 items" in table.off


def test_the_page_names_what_ends_a_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "lift.md").read_text()
    for cause in (DISAGREED, CHANGED, NOT_EVALUATED):
        assert f"\n| `{cause}` | " in page
    for said in (f"{MOST_ITEMS:,} items", f"{LONGEST_TEXT:,} characters", f"{MOST_TIME_S} s of CPU"):
        assert said in page


@dataclass
class Data:
    """State of a dataclass."""

    total: float
    note: str = ""


def test_state_of_classes_is_read() -> None:
    table = lift(with_object)
    for state in (Data(60), Data(10, "ask"), Data(10)):
        assert table.router.decide(state).destination == with_object(state)  # type: ignore[arg-type]


def test_fields_that_have_fractions_are_numbers() -> None:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Data)
    builder.add_node("node", lambda _: {})
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", lambda state: "node" if state.total > 50 else END, ["node", END])
    table = lifted(builder.compile(), "agent").routers["agent.route_after_node"]
    assert table.router.facts_type.__annotations__ == {"total": float}


def test_rules_that_nothing_comes_to_are_named() -> None:
    def twice(state: Any) -> str:
        if state["rounds"] > 5:
            return "many"
        if state["rounds"] > 7:
            return "never"
        return "few"

    assert unreached_rules(lift(twice).router) == ["rounds_limit_2"]
    assert unreached_rules(lift(ladder).router) == []


def test_the_command_shows_each_table_or_why_there_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [*sys.path])
    examples = str(Path(__file__).parents[3] / "examples" / "graphs")
    assert lift_command.main([examples]) == 0
    told = capsys.readouterr().out
    assert "  max_rounds  → give_up  rounds >= max_rounds (4)\n" in told
    assert "digest.route_after_collect  digest.py:24\n  not lifted: it sends packets\n" in told
    assert told.endswith("4 of 5 path functions lifted\n")
    assert prove.main(["--agents", examples]) == 0
    told = capsys.readouterr().out
    assert "✓ calculator.route_after_model: always one of 3 rules holds, and each of them can\n" in told
    assert "by max_steps (1,000) at the latest" in told
