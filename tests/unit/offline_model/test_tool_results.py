"""What tools return, read back as the executors write it."""

from __future__ import annotations

import pytest

from services.offline_model.prompt_data import Example
from services.offline_model.tool_results import QueryError, QueryResult, read_examples, read_result


def test_examples() -> None:
    text = "Question: A?\nSQL: SELECT 1\nFROM t\n\nQuestion: B?\nSQL: SELECT 2\n\n- hot is above 45\n- cold is below 0"
    assert read_examples(text) == [
        Example(question="A?", sql="SELECT 1\nFROM t"),
        Example(question="B?", sql="SELECT 2"),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "There are no examples.", "Question: only a question", "SQL: SELECT 1", "Question:" + " " * 100_000,
     "Question: " + "\n" * 100_000, "Question: a\n" * 20_000],
)  # fmt: skip
def test_no_examples(text: str) -> None:
    assert read_examples(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rows: 1\nn\n3", QueryResult(("n",), (("3",),), 1, "")),
        ("rows: 2\na | b\n1 | x\n2 | y", QueryResult(("a", "b"), (("1", "x"), ("2", "y")), 2, "")),
        ("rows: 1\nname\nMiller | Ann", QueryResult(("name",), (("Miller | Ann",),), 1, "")),
        ("rows: 0\na | b", QueryResult(("a", "b"), (), 0, "")),
        ("rows: 200\ntruncated: row_cap\na\n1", QueryResult(("a",), (("1",),), 200, "row_cap")),
        ("rows: 2\na | b\n1 | x | y\n2 | z", QueryResult(("a", "b"), (("2", "z"),), 2, "")),
    ],
)
def test_results(text: str, expected: QueryResult) -> None:
    assert read_result(text) == expected


def test_refusals() -> None:
    assert read_result("error: restricted_table: admin is closed") == QueryError("restricted_table", "admin is closed")
