"""The schemas that requests are held to take what LangGraph takes."""

from __future__ import annotations

import json
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel, ConfigDict, Field

from services.kit.errors import InvalidRequest
from services.runtime.hosted.schemas import Schemas, whole


def test_messages_are_told_in_a_few_lines() -> None:
    graph = StateGraph(MessagesState).add_node("only", lambda state: state).add_edge(START, "only").compile()
    told = Schemas.of(graph)
    for schema in (told.input, told.output):
        assert "messages" in schema["properties"]
        assert len(json.dumps(schema)) < 1000


class Entry(TypedDict):
    """A typed dictionary inside of another."""

    question: str
    grade: int


class Person(BaseModel):
    """What is given by the names of its fields, or by their aliases."""

    model_config = ConfigDict(populate_by_name=True)

    name: str = Field(alias="Name")
    age: int


class State(TypedDict):
    """What a graph begins with."""

    entries: list[Entry]
    person: Person


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    """Those of a graph."""
    return Schemas.of(StateGraph(State).add_node("only", lambda state: state).add_edge(START, "only").compile())


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"entries": [{"question": "why"}]},
        {"person": {"name": "Ann", "age": 3}},
        {"person": {"Name": "Ann", "age": 3}},
    ],
)
def test_what_langgraph_takes_is_taken(schemas: Schemas, given: dict[str, Any]) -> None:
    schemas.check(given, {}, has_context=False)


@pytest.mark.parametrize(
    "given",
    [{"entries": [{"grade": "high"}]}, {"person": {"name": "Ann"}}, {"person": {"name": 3, "age": 3}}, {"other": 1}],
)
def test_what_is_of_another_kind_is_refused(schemas: Schemas, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=f"input.graph.input{'.' if 'other' not in given else ''}"):
        schemas.check(given, {}, has_context=False)


@pytest.mark.parametrize(("carried", "read"), [(3.0, 3), (2.0**62, 2**62), (1e19, 1e19), (-1e308, -1e308), (0.5, 0.5)])
def test_numbers_are_whole_as_far_as_they_can_be_kept(carried: float, read: float) -> None:
    assert json.dumps(whole({"n": [carried]})) == json.dumps({"n": [read]})
