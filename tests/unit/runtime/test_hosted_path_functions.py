"""What a path function read, and how it came to its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END
from pydantic import BaseModel

from services.runtime.hosted.facts import facts_of, recorded
from services.runtime.hosted.path_function import PathFunction

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


def chosen(state: Any) -> str:
    return "many" if state["rounds"] > 2 else "one" if state["rounds"] == 1 else END


def way_of(function: Any, state: Any) -> tuple[Any, list[tuple[str, bool]], str, dict[str, Any]]:
    followed, lines, reads = PathFunction(function), list[int](), dict[str, Any]()
    given = recorded(state, reads)
    with followed.followed(lines):
        result = function(given)
    way = followed.way(lines, result)
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
