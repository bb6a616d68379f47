"""Postgres's grammar as it is used here: what is bounded before it reads, and that what is written is what was read."""

from __future__ import annotations

import asyncio

import postgast
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.kit.tools.executor import ToolRefused
from services.sql_executor.policy import Limits
from services.sql_executor.syntax import SyntaxThread, read, without_positions, write

LIMITS = Limits(query_length=200_000)
# Shapes that nest as deep as they are long, each of about a hundred thousand characters or as many words as are read.
DEEP = [
    "SELECT " + "1+" * 2990 + "1",
    "SELECT " + "1+" * 50_000 + "1",
    "SELECT " + "(" * 50_000 + "1" + ")" * 50_000,
    "SELECT " + "- " * 50_000 + "1",
    "SELECT " + "NOT " * 25_000 + "TRUE",
    "SELECT 1" + "::a" * 2990,
    "SELECT a" + " ISNULL" * 5900,
    "SELECT " + "ARRAY[" * 2900 + "]" * 2900,
    "SELECT FROM a" + " JOIN a ON a" * 1400,
    "SELECT a" + " COLLATE a" * 2900,
    " UNION ".join(["SELECT"] * 2900),
    "(" * 50_000 + "SELECT" + ")" * 50_000,
    "SELECT " + "a || " * 2900 + "a",
    "SELECT " + "CASE WHEN a THEN " * 1400 + "1" + " END" * 1400,
    "SELECT " + "f(" * 2900 + ")" * 2900,
    "SELECT " + "(SELECT " * 1900 + ")" * 1900,
    "SELECT a" + "[1]" * 1900,
    "/*" * 50_000 + "*/" * 50_000 + "SELECT 1",
    "/* " * 30_000 + "*/ " * 30_000 + "SELECT 1",
    "SELECT a " + "+" * 100_000 + " b",
]


async def test_the_thread_answers_and_raises() -> None:
    thread = SyntaxThread()
    assert await thread.run(_roundtrip, "SELECT /* x */ 1 ;") == "SELECT 1"
    with pytest.raises(ToolRefused, match="200001 characters"):
        await thread.run(read, "x" * 200_001, LIMITS)
    several = [thread.run(read, f"SELECT {number}", LIMITS) for number in range(50)]
    assert len(await asyncio.gather(*several)) == 50
    thread.close()


def _roundtrip(text: str) -> str:
    tree = read(text, LIMITS)
    without_positions(tree)
    return write(tree).text


def test_a_nul_would_end_the_text_for_the_parser() -> None:
    assert len(postgast.parse("SELECT 1\x00; DROP TABLE x").stmts) == 1
    with pytest.raises(ToolRefused, match="NUL"):
        read("SELECT 1\x00; DROP TABLE x", LIMITS)


def test_a_hundred_levels_are_said_in_words() -> None:
    joins = "SELECT 1 FROM a" + " JOIN a ON true" * 60
    with pytest.raises(ToolRefused, match="47 joins") as refused:
        read(joins, LIMITS)
    assert refused.value.reason == "too_deep"
    assert _roundtrip("SELECT 1 FROM a" + " JOIN a ON true" * 40)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("SELECT (id = 27) IN (true, false)", "SELECT (id = 27) IN (true, false)"),
        ("SELECT (a AND b) IS NULL", "SELECT (a AND b) IS NULL"),
        ("SELECT (NOT a) IS NULL", "SELECT (NOT a) IS NULL"),
        ("SELECT (a LIKE b) BETWEEN c AND d", "SELECT (a LIKE b) BETWEEN c AND d"),
        ("SELECT ((-1))[1]", "SELECT (-1)[1]"),
        ('SELECT (a || b) COLLATE "C" = c', None),
        ("SELECT (a = b) IS DISTINCT FROM (c = d)", None),
        ("SELECT -(a AT TIME ZONE (b AT TIME ZONE c))", None),
    ],
)
def test_parentheses_that_the_deparser_loses_are_kept(text: str, written: str | None) -> None:
    assert written is None or _roundtrip(text) == written
    assert _same(text, _roundtrip(text))


def test_the_deparser_does_lose_them() -> None:
    assert not _same("SELECT (id = 27) IN (true)", postgast.deparse(postgast.parse("SELECT (id = 27) IN (true)")))


def _same(one: str, other: str) -> bool:
    trees = [read(text, LIMITS) for text in (one, other)]
    for tree in trees:
        without_positions(tree)
    return bool(trees[0] == trees[1])


_SHAPES = (
    "({0} = {1})", "({0} AND {1})", "({0} OR {1})", "(NOT {0})", "({0} IS NULL)", "({0} IN ({1}, 2))", "({0} + {1})",
    "(- {0})", "({0} || {1})", "({0} LIKE {1})", "({0} BETWEEN {1} AND {2})", "({0})::text", "({0} IS TRUE)",
    "({0} IS DISTINCT FROM {1})", "({0} AT TIME ZONE {1})", '({0} COLLATE "C")', "(ARRAY[{0}])[{1}]", "({0} -> {1})",
    "({0} = ANY ({1}))", "CASE WHEN {0} THEN {1} END", "f({0})", "({0}, {1})", "({0} ^ {1})",
    "({0} = ALL (SELECT {1}))",
    "({0} NOT IN (SELECT 1))", "({0} NOT LIKE {1} ESCAPE '!')", "(({0})[1])", "extract(day from {0})",
    "nullif({0}, {1})",
    "position({0} in {1})", "({0} BETWEEN SYMMETRIC {1} AND {2})", "({0})::numeric(3, 1)", "substring({0} from {1})",
)  # fmt: skip
_LEAVES = st.sampled_from(["a", "1", "b.c", "'x'", "-1", "true", "-1.5", "NULL"])
_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.builds(lambda shape, *parts: shape.format(*parts), st.sampled_from(_SHAPES), inner, inner, inner),
    max_leaves=9,
)


@settings(max_examples=400, deadline=None)
@given(_EXPRESSIONS)
def test_any_nesting_of_operators_is_written_as_it_was_read(expression: str) -> None:
    text = f"SELECT {expression}"
    if not _same(text, _roundtrip(text)):
        raise AssertionError(text)
