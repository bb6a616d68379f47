"""Edges of a graph's file that name tables: written where one call is certain, as the file was written."""

from __future__ import annotations

from typing import Any

import pytest

from services.runtime.hosted.adoption.edge_edit import Edit, TableEdge, edited

HEAD = "from langgraph.graph import END\n"
TABLE = "route_after_agent"
BY_HAND = [f'add_conditional_edges("agent", {TABLE})']


class Builder:
    """Keeps the function that the last call has been given, as a graph does."""

    function: Any = None

    def add_conditional_edges(self, _node: str, function: Any, **_given: Any) -> None:
        self.function = self.function or function


def edit(source: str | bytes, table: str = TABLE) -> Edit:
    """Runs a file, and has the table in the place of what its builder `b` was given."""
    source = source.encode() if isinstance(source, str) else source
    names: dict[str, Any] = {"__file__": "/graphs/g.py", "__name__": "g", "b": Builder()}
    exec(compile(source, "/graphs/g.py", "exec"), names)  # noqa: S102 - as importing it does
    return edited(source, names, "tables", [TableEdge("one.route_after_agent", "agent", table, names["b"].function)])


def test_the_table_is_in_the_place_of_a_function_of_the_module() -> None:
    made = edit(f'{HEAD}def route(state): return END\nb.add_conditional_edges("agent", route, path_map={{}})\n')
    assert made.after.decode() == (
        f'{HEAD}from tables import {TABLE}\ndef route(state): return END\nb.add_conditional_edges("agent", {TABLE})\n'
    )


def test_what_is_imported_already_is_not_imported_again() -> None:
    source = f'from tables import {TABLE}\nb.add_conditional_edges("agent", len)\n'
    edge = TableEdge("one.route_after_agent", "agent", TABLE, len)
    made = edited(source.encode(), {"len": len, TABLE: None}, "tables", [edge])
    assert made.after.decode() == f'from tables import {TABLE}\nb.add_conditional_edges("agent", {TABLE})\n'


@pytest.mark.parametrize(
    "source",
    [
        'b.add_conditional_edges("agent", lambda state: END)',
        'def build():\n    def route(state): return END\n    b.add_conditional_edges("agent", route)\nbuild()',
        'import ntpath\nb.add_conditional_edges("agent", ntpath.basename)',
    ],
)
def test_a_function_that_one_line_makes_is_certain(source: str) -> None:
    made = edit(f"{HEAD}{source}\n")
    assert not made.by_hand
    assert f'add_conditional_edges("agent", {TABLE})' in made.after.decode()


@pytest.mark.parametrize(
    "source",
    [
        # What is given is another function for others who call.
        'def f(s): return END\ndef build(route): b.add_conditional_edges("agent", route)\nbuild(f)',
        'def route(s): return END\ndef build(route): b.add_conditional_edges("agent", route)\nbuild(route)',
        'def f(s): return END\nfor route in (f, len): b.add_conditional_edges("agent", route)',
        'def f(s): return END\n[b.add_conditional_edges("agent", route) for route in (f, f)]\nroute = f',
        'def f(s): return END\nroute = f\nb.add_conditional_edges("agent", route)\nroute = len',
        'c = [lambda s: END]\nb.add_conditional_edges("agent", c[0])',
        # Of two on one line it isn't known which.
        'b.add_conditional_edges("agent", lambda s: END); f = lambda s: 1',
        # Another graph's node has the name.
        'def f(s): return END\nb.add_conditional_edges("agent", f)\nb.add_conditional_edges("agent", f)',
    ],
)
def test_a_call_that_may_be_given_another_function_is_left_to_a_person(source: str) -> None:
    made = edit(f"{HEAD}{source}\n")
    assert (made.by_hand, made.after) == (BY_HAND, made.before)


@pytest.mark.parametrize(
    "source",
    [
        f'def {TABLE}(s): return END\nb.add_conditional_edges("agent", {TABLE})',
        f'def f({TABLE}): return END\nb.add_conditional_edges("agent", f)',
        f'from os import path as {TABLE}\nb.add_conditional_edges("agent", lambda s: END)',
    ],
)
def test_a_name_of_the_files_own_is_not_taken_by_a_table(source: str) -> None:
    made = edit(f"{HEAD}{source}\n")
    assert (made.by_hand, made.after) == (BY_HAND, made.before)


@pytest.mark.parametrize(
    ("source", "after"),
    [
        (b'\xef\xbb\xbf# caf\xc3\xa9\nb.add_conditional_edges("agent", lambda s: 1)',
         b'\xef\xbb\xbf# caf\xc3\xa9\nfrom tables import T\nb.add_conditional_edges("agent", T)'),
        (b'# coding: latin-1\nimport os\nx = "\xe9"; b.add_conditional_edges("agent", lambda s: 1)\n',
         b'# coding: latin-1\nimport os\nfrom tables import T\nx = "\xe9"; b.add_conditional_edges("agent", T)\n'),
        (b'import os\r\n\r\nb.add_conditional_edges(\r\n    "agent",\r\n    lambda s: 1,\r\n)\r\n',
         b'import os\r\nfrom tables import T\r\n\r\nb.add_conditional_edges(\r\n    "agent", T,\r\n)\r\n'),
        (b'b.add_conditional_edges(("agent"), (lambda s: (1)),  # (why)\n)\n',
         b'from tables import T\nb.add_conditional_edges(("agent"), T,  # (why)\n)\n'),
    ],
    ids=["bom", "latin-1", "crlf", "parentheses"],
)  # fmt: skip
def test_a_file_is_written_as_it_was(source: bytes, after: bytes) -> None:
    made = edit(source, "T")
    assert (made.after, made.by_hand) == (after, [])


def test_what_is_no_python_any_more_is_left_to_a_person() -> None:
    edge = TableEdge("one.route_after_agent", "agent", TABLE, len)
    for source in (b"def", b"# coding: utf-8\n\xff", b"# coding: none\n"):
        made = edited(source, {}, "tables", [edge])
        assert (made.after, made.by_hand) == (source, BY_HAND)
