"""Prompts and tool results, read back in every layout that they come in."""

from __future__ import annotations

import pytest

from services.offline_model.data_questions.prompts import (
    Example,
    QueryError,
    QueryResult,
    read_examples,
    read_format_request,
    read_result,
    section,
)


def test_examples_of_a_prompt_section() -> None:
    prompt = """You answer questions.

## Examples
Question: How many devices are there?
SQL: SELECT count(*)
FROM devices;

  Question:  Which ships?
  SQL: ```sql
SELECT name FROM ships
```

## Notes
- A device is hot above 45.
"""
    assert read_examples(section(prompt, "example")) == (
        Example("How many devices are there?", "SELECT count(*)\nFROM devices"),
        Example("Which ships?", "SELECT name FROM ships"),
    )
    assert section(prompt, "note").strip() == "- A device is hot above 45."
    assert section(prompt, "tables") == ""


def test_examples_of_a_tool_result_need_no_blank_lines() -> None:
    text = "Question: A?\nSQL: SELECT 1\nQuestion: B?\nSQL: SELECT 2\nNote: hot is above 45\n- cold is below 0"
    assert read_examples(text) == (Example("A?", "SELECT 1"), Example("B?", "SELECT 2"))


@pytest.mark.parametrize(
    "text",
    ["", "(none)", "There are no examples.", "Question: only a question", "SQL: SELECT 1",
     "Question:" + " " * 100_000, "Question: " + "\n" * 100_000, "Question: a\n" * 20_000, "Question:\nSQL: x"],
)  # fmt: skip
def test_no_examples(text: str) -> None:
    assert read_examples(text) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rows: 1\nn\n3", QueryResult(("n",), (("3",),), 1, "")),
        ("n\n3\n(1 row)", QueryResult(("n",), (("3",),), 1, "")),
        ("rows: 2\na | b\n--+--\n1 | x\n2 | y", QueryResult(("a", "b"), (("1", "x"), ("2", "y")), 2, "")),
        ('rows: 2\na,b\n1,"x, y"\n2,z', QueryResult(("a", "b"), (("1", "x, y"), ("2", "z")), 2, "")),
        ("name\nMiller, Ann\n(1 row)", QueryResult(("name",), (("Miller, Ann",),), 1, "")),
        ("rows: 0\na | b", QueryResult(("a", "b"), (), 0, "")),
        ("No rows. Columns: a, b.", QueryResult((), (), 0, "")),
        ("rows: 200\ntruncated: row_cap\na\n1", QueryResult(("a",), (("1",),), 200, "row_cap")),
        (
            "a | b\n1 | 2\n(60 rows)\nOnly the first 1 rows are shown here.\n"
            "The result was cut at 60 rows; there are more. Aggregate or filter to see all.",
            QueryResult(("a", "b"), (("1", "2"),), 60, "cut at 60 rows"),
        ),
    ],
)
def test_results(text: str, expected: QueryResult) -> None:
    assert read_result(text) == expected


def test_errors() -> None:
    assert read_result("error: restricted_table: admin is closed") == QueryError("restricted_table", "admin is closed")


def test_format_requests() -> None:
    request = read_format_request(
        "Answer in a sentence.\n\nQuestion: How many?\nSQL: SELECT count(*)\nFROM t\n\nResult:\nn\n3\n(1 row)"
    )
    assert (request.question, request.sql) == ("How many?", "SELECT count(*)\nFROM t")
    assert request.result == "n\n3\n(1 row)"
    assert read_format_request("hello").question == ""


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Question: a\nResult: r\nSQL: s", ("a", "", "r\nSQL: s")), ("SQL: s\nQuestion: a", ("a", "", "")),
        ("Question: a\nQuestion: b\nSQL: s\nSQL: t", ("a\nQuestion: b", "s\nSQL: t", "")),
        ("Question: a" + "\n" * 100_000 + "SQL: s" + " \n" * 100_000 + "Result: r", ("a", "s", "r")),
    ],
    ids=range(4),
)  # fmt: skip
def test_sections_in_another_order(text: str, read: tuple[str, str, str]) -> None:
    request = read_format_request(text)
    assert (request.question, request.sql, request.result) == read
