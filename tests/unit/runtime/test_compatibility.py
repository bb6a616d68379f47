"""Whether a value still has the type that a state field declares."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from services.runtime.engine.compatibility import mismatch


class Place(TypedDict):
    """A record."""

    name: str
    line: int
    note: NotRequired[str]


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (3, int),
        (3, float),
        (None, str | None),
        ([1, 2], Annotated[list[int], "reducer"]),
        ({"name": "a", "line": 1, "grown": True}, Place),
        ({"a": {"name": "a", "line": 1}}, dict[str, Place]),
        ([HumanMessage("hi"), AIMessage("ho")], list[AnyMessage]),
        (["a"], tuple[str, ...]),
        ("completed", Literal["completed", "failed"]),
        (object(), Any),
    ],
)
def test_what_fits(value: Any, hint: Any) -> None:
    assert mismatch(value, hint, "field") == ""


@pytest.mark.parametrize(
    ("value", "hint", "problem"),
    [
        ("3", int, "field is str, not int"),
        (None, str, "field is NoneType, not str"),
        ([1, "2"], list[int], "field[1] is str, not int"),
        ({"name": "a"}, Place, "field lacks line"),
        ({"name": "a", "line": "1"}, Place, "field.line is str, not int"),
        ({"name": "a", "line": 1, "note": 2}, Place, "field.note is int, not str"),
        ([["a"]], list[Place], "field[0] is list, not Place"),
        ({"a": 1}, dict[str, Place], "field['a'] is int, not Place"),
        (["text"], list[AnyMessage], "field[0] is str, not "),
        ("done", Literal["completed"], "field is 'done', which is none of completed"),
        (1.5, int | str | None, "field is float, not int | str | None"),
    ],
)
def test_what_does_not_is_named(value: Any, hint: Any, problem: str) -> None:
    assert mismatch(value, hint, "field").startswith(problem)
