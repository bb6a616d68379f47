"""A result as text for the model: a header and a line per row, whatever a query calls its columns or returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from services.sql_executor.policy import Limits
from services.sql_executor.rows import ResultTable


@dataclass
class Described:
    name: str
    type_code: int = 25


def _text(names: Sequence[str], *rows: Sequence[str | None]) -> str:
    table = ResultTable.of([Described(name) for name in names], Limits())
    for row in rows:
        table.add(row)
    return table.to_text(10)


def test_a_table_is_a_header_and_a_line_per_row() -> None:
    assert _text(["a", "b c"], ["1", None], ["x  y", ""]) == "rows: 2\na | b c\n1 | NULL\nx  y | "


@pytest.mark.parametrize("end", ["\n", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_neither_a_name_nor_a_value_makes_lines(end: str) -> None:
    assert _text([f"a{end}b"], [f"1{end}2"]).splitlines() == ["rows: 1", "a b", "1 2"]


@pytest.mark.parametrize("unseen", ["\x01", "\x1b", "\x7f", "\u200b", "\u202e", "\u2066", "\U000e0041", "\ue000"])
def test_what_is_not_seen_is_left_out(unseen: str) -> None:
    assert _text([f"a{unseen}b"], [f"{unseen}1{unseen}"]).splitlines() == ["rows: 1", "ab", "1"]


def test_a_long_value_is_cut_and_says_so() -> None:
    line = _text(["a"], ["\x01" + "x" * 2000]).splitlines()[-1]
    assert line == "x" * 999 + "… (2001 characters)"
