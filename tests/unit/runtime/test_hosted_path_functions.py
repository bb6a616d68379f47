"""What a path function read, and how it came to its result."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END
from pydantic import BaseModel

from services.runtime.hosted.facts import MOST_CHARACTERS, facts_of, recorded
from services.runtime.hosted.path_function import MOST_INSTRUCTIONS, MOST_TESTS, PathFunction

MOST = 3


def ladder(state: Any) -> str:
    if state["done"]:
        return END
    if state["rounds"] >= MOST:
        return "give_up"
    for word in state["words"]:
        if word == "stop":
            return "stop"
    return "go_on"


# As people write them who format nothing.
# ruff: noqa: E701
# fmt: off
def over_lines(state: Any) -> str:
    for _ in state["words"]:
        pass
    if (
        state["x"] > 1
        and state["y"] > 2
    ):
        where = "both"
    elif (state["x"] > 1
          or state["y"] > 2):
        where = "either"
    else:
        where = "neither"
    return where


def on_its_line(state: Any) -> str:
    for each in state["words"]:
        if each == "": continue
        if each == "stop": return "stop"
    while state["words"]: state["words"].pop()
    if state["x"] > 1: return "one"
    return "no"


def matched(state: Any) -> Any:
    match state["kind"]:
        case "a" | "b" if (
            state["x"] > 1
        ):
            return "many"
        case {"go": [place, *_]}: return place
        case other:
            return other


def caught(state: Any) -> str:
    try:
        if state["x"] > 1:
            return "many"
    except TypeError:
        return "wrong"
    return "é" if "é" in state["words"] and state["x"] else ("none" if not state["words"] else "words")
# fmt: on


def chosen(state: Any) -> str:
    return "many" if state["rounds"] > 2 else "one" if state["rounds"] == 1 else END


def way_of(function: Any, state: Any) -> tuple[Any, list[tuple[str, bool]], str, dict[str, Any]]:
    followed, instructions, reads = PathFunction(function), list[int](), dict[str, Any]()
    given = recorded(state, reads)
    with followed.followed(instructions):
        result = function(given)
    way = followed.way(instructions)
    return result, [(test.test, test.held) for test in way.tests], way.returned, facts_of(reads)


@pytest.mark.parametrize(
    ("state", "tests", "returned", "read"),
    [
        ({"done": True, "rounds": 1, "words": []}, [("state['done']", True)], "END", {"done"}),
        (
            {"done": False, "rounds": 5, "words": []},
            [("state['done']", False), ("state['rounds'] >= MOST", True)],
            "'give_up'",
            {"done", "rounds"},
        ),
        (
            {"done": False, "rounds": 1, "words": ["a", "stop"]},
            [
                ("state['done']", False),
                ("state['rounds'] >= MOST", False),
                ("word == 'stop'", False),
                ("word == 'stop'", True),
            ],
            "'stop'",
            {"done", "rounds", "words"},
        ),
    ],
)
def test_the_tests_that_it_came_to(
    state: dict[str, Any], tests: list[tuple[str, bool]], returned: str, read: set[str]
) -> None:
    _, found, said, facts = way_of(ladder, state)
    assert (found, said, set(facts)) == (tests, returned, read)


@pytest.mark.parametrize(
    ("rounds", "tests"),
    [
        (3, [("state['rounds'] > 2", True)]),
        (1, [("state['rounds'] > 2", False), ("state['rounds'] == 1", True)]),
        (0, [("state['rounds'] > 2", False), ("state['rounds'] == 1", False)]),
    ],
)
def test_a_choice_on_one_line_is_told_by_its_result(rounds: int, tests: list[tuple[str, bool]]) -> None:
    assert way_of(chosen, {"rounds": rounds})[1] == tests


BOTH, EITHER = "state['x'] > 1 and state['y'] > 2", "state['x'] > 1 or state['y'] > 2"
GUARDED, GO = "match state['kind']: case 'a' | 'b' if state['x'] > 1", "match state['kind']: case {'go': [place, *_]}"
EMPTY, STOP, WORDS, MANY = "each == ''", "each == 'stop'", "state['words']", "state['x'] > 1"
ACCENT, NONE = "'é' in state['words'] and state['x']", "not state['words']"


@pytest.mark.parametrize(
    ("function", "state", "tests", "returned"),
    [
        (over_lines, {"words": ["a"], "x": 3, "y": 3}, [(BOTH, True)], "where"),
        (over_lines, {"words": [], "x": 3, "y": 1}, [(BOTH, False), (EITHER, True)], "where"),
        (over_lines, {"words": [], "x": 0, "y": 0}, [(BOTH, False), (EITHER, False)], "where"),
        (on_its_line, {"words": ["", "stop"], "x": 0}, [(EMPTY, True), (EMPTY, False), (STOP, True)], "'stop'"),
        (
            on_its_line,
            {"words": ["a"], "x": 2},
            [(EMPTY, False), (STOP, False), (WORDS, True), (WORDS, False), (MANY, True)],
            "'one'",
        ),
        (on_its_line, {"words": [], "x": 1}, [(WORDS, False), (MANY, False)], "'no'"),
        (matched, {"kind": "b", "x": 2}, [(GUARDED, True)], "'many'"),
        (matched, {"kind": "b", "x": 1}, [(GUARDED, False), (GO, False)], "other"),
        (matched, {"kind": {"go": ["there"]}, "x": 1}, [(GUARDED, False), (GO, True)], "place"),
        (matched, {"kind": "", "x": 1}, [(GUARDED, False), (GO, False)], "other"),
        # What came to no end has neither held nor not.
        (caught, {"words": [], "x": "1"}, [], "'wrong'"),
        (caught, {"words": ["é"], "x": 1}, [(MANY, False), (ACCENT, True)], None),
        (caught, {"words": ["a"], "x": 1}, [(MANY, False), (ACCENT, False), (NONE, False)], None),
        (caught, {"words": [], "x": 0}, [(MANY, False), (ACCENT, False), (NONE, True)], None),
        (lambda s: "a" if s["x"] else "b", {"x": 1}, [("s['x']", True)], "'a' if s['x'] else 'b'"),
    ],
)
def test_a_test_held_if_its_body_was_run(
    function: Any, state: dict[str, Any], tests: list[tuple[str, bool]], returned: str | None
) -> None:
    _, found, said, _ = way_of(function, state)
    assert (found, said if returned else None) == (tests, returned)


def test_tests_and_returns_are_told_by_their_lines() -> None:
    followed, instructions = PathFunction(ladder), list[int]()
    with followed.followed(instructions):
        ladder({"done": False, "rounds": MOST})
    lines, first = inspect.getsourcelines(ladder)
    way = followed.way(instructions)
    assert [(lines[test.line - first].strip(), test.held) for test in way.tests] == [
        ('if state["done"]:', False),
        ('if state["rounds"] >= MOST:', True),
    ]
    assert lines[way.returned_at - first].strip() == 'return "give_up"'


def test_a_long_loop_is_followed_no_farther_than_is_shown() -> None:
    followed, instructions = PathFunction(ladder), list[int]()
    with followed.followed(instructions):
        ladder({"done": False, "rounds": 0, "words": ["a"] * 100_000})
    way = followed.way(instructions)
    assert (len(way.tests), way.returned) == (MOST_TESTS, "'go_on'")
    assert len(instructions) <= MOST_INSTRUCTIONS + 3


def test_one_without_source_is_followed_no_farther_than_its_result() -> None:
    made: dict[str, Any] = {}
    exec("def path(state): return 'a' if state['x'] else 'b'", made)  # noqa: S102 - a function without a file
    assert way_of(made["path"], {"x": 1}) == ("a", [], "", {"x": 1})


class Model(BaseModel):
    """State of pydantic."""

    total: float = 0
    note: str = ""


@dataclass(frozen=True)
class Data:
    """State of a dataclass."""

    total: float = 0
    names: list[str] = field(default_factory=list)


@pytest.mark.parametrize("state", [Model(total=2.5, note="x"), Data(2.5)])
def test_state_of_a_class_stays_of_its_class(state: Any) -> None:
    reads: dict[str, Any] = {}
    given = recorded(state, reads)
    assert isinstance(given, type(state))
    assert given == state or given.total == state.total
    reads.clear()
    assert given.total > 2
    assert facts_of(reads) == {"total": 2.5}
    # The state itself is as it was.
    assert type(state) in (Model, Data)


class Unspeakable:
    """Has no words for itself."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("a short text", "a short text"),
        ("x" * 81, {"length": 81}),
        ([HumanMessage("a secret of the caller's"), AIMessage("An answer.")],
         {"count": 2, "last": {"type": "ai", "length": 10, "tools": []}}),
        ({"a": {"b": {"c": {"d": 1}}}}, {"a": {"b": {"c": "dict"}}}),
        (2**70, str(2**70)),
        (float("nan"), "nan"),
        (b"bytes", {"count": 5}),
        (object, "type"),
        ({Unspeakable(): 1}, "dict"),
    ],
)  # fmt: skip
def test_values_are_bounded(value: Any, kept: Any) -> None:
    assert facts_of({"value": value}) == {"value": kept}


def test_facts_are_bounded_as_a_whole() -> None:
    wide: Any = "é" * 80
    for _ in range(3):
        wide = {f"{number:02}{'n' * 78}": wide for number in range(20)}
    facts = facts_of({**{f"profile_{number}": wide for number in range(18)}, "rounds": 3, "place": "there"})
    assert len(json.dumps(facts, ensure_ascii=False)) < 2 * MOST_CHARACTERS
    assert (len(facts), facts["rounds"], facts["place"]) == (20, 3, "there")
