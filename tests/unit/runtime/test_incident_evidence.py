"""What a value, a query and a claim say, as far as that can be told without looking anything up."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from services.runtime.agents.code_review.code_bank import Fragment
from services.runtime.agents.incident_investigation.conclusion import ANSWER, Conclusion, Evidence, QueryResult, Value
from services.runtime.agents.incident_investigation.evidence import (
    EvidenceFails,
    check_numbers,
    code_and_comments,
    same_value,
    says_itself,
)
from tests.fixtures.code_readings import reading_of


@pytest.mark.parametrize(
    ("found", "claimed", "same"),
    [
        (12, "12", True), (12, 12.0, True), ("12.50", 12.5, True), (1e3, "1000", True), (12, "12.1", False),
        ("2026-01-27T09:10:00Z", "2026-01-27 10:10:00+01", True), ("2026-01-27T09:10:00Z", "2026-01-27", False),
        (None, None, True), (None, "", False), ("", None, False),
        (True, True, True), (True, "true", True), (True, 1, False), (False, "0", False),
        ("up", "up", True), ("up", "UP", False), ("NaN", "NaN", True), ("NaN", 1, False),
    ],
)  # fmt: skip
def test_values_are_the_same_by_what_they_say(found: Value, claimed: Value, same: bool) -> None:
    assert same_value(found, claimed) is same


@pytest.mark.parametrize(
    ("query", "row", "itself"),
    [
        ("SELECT 'pool' AS cause FROM t", {"cause": "pool"}, True),
        ("SELECT $$pool$$ AS cause FROM t", {"cause": "pool"}, True),
        ("SELECT $x$pool$x$ AS cause FROM t", {"cause": "pool"}, True),
        ("SELECT 'it''s it' AS cause FROM t", {"cause": "it's it"}, True),
        ("SELECT 42 AS n FROM t", {"n": 42.0}, True),
        ("SELECT service, 97.5 AS used FROM t WHERE service = 'a'", {"service": "a", "used": "97.5"}, True),
        ("SELECT service, used FROM t WHERE service = 'a'", {"service": "a", "used": "97.5"}, False),
        ("SELECT n FROM t ORDER BY n LIMIT 1", {"n": 1}, False),
        ("SELECT version FROM v1 WHERE a1 > 0", {"version": 1}, False),
        ("SELECT n FROM t WHERE n IS NULL", {"n": None}, False),
    ],
)
def test_a_query_that_states_its_own_result_shows_nothing(query: str, row: dict[str, Value], itself: bool) -> None:
    assert says_itself(QueryResult(query=query, row=row)) is itself


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        ("it rose to 97.50 percent", '{"used": 97.5}'),
        ("at 09:10, by version 4.2.0 of svc-7", "2026-01-27T09:10:00Z"),
        ("from 2026-01-27 on", "2026-01-27T09:10:00Z"),
        ("nothing to count", ""),
        ("there were 1,234 errors", '{"errors": 1234}'),
        ("1,234,567.5 in all, of 12,000.", '{"sum": "1234567.50", "n": 12000}'),
        ("there were 1,234 errors, or 1234", "1,234 errors"),
        ("5,6 and 7", "[5, 6, 7]"),
    ],
)
def test_numbers_that_stand_where_a_claim_points(claim: str, found: str) -> None:
    check_numbers(claim, found)


@pytest.mark.parametrize(
    "claim", ["it rose to 98", "12 of them", "from 5 to 97.5", "97,500 of them", "at most 1,000ms"]
)
def test_a_number_that_stands_nowhere_is_made_up(claim: str) -> None:
    with pytest.raises(EvidenceFails):
        check_numbers(claim, '{"used": 97.5}')


def test_a_number_by_which_evidence_points_there_stands_there_unless_the_query_states_it() -> None:
    pointer = '{"query": "SELECT service, 98 AS used FROM t WHERE latency > 500"}'
    check_numbers("it took more than 500 at 97.5", '{"used": 97.5}', pointer=pointer)
    check_numbers("it is 98", '{"n": 98}', pointer=pointer, stated='{"used": 98}')
    with pytest.raises(EvidenceFails, match="98"):
        check_numbers("it is 98", '{"service": "a"}', pointer=pointer, stated='{"used": 98}')


@pytest.mark.parametrize("cell", [",123" * 200_000 + "4", "1,123," * 200_000 + "4", "9" * 1_000_000], ids=len)
def test_a_cell_that_was_written_to_be_long_to_read_is_read(cell: str) -> None:
    check_numbers("it is 1,234,567", f"{cell} 1,234,567.")


@pytest.mark.parametrize(
    ("path", "line", "code", "comments"),
    [
        ("config.yaml", "timeout_ms: 50 # since 4.2.0", "timeout_ms: 50", ["# since 4.2.0"]),
        ("config.yaml", 'colour: "#fff" # as the logo', 'colour: "#fff"', ["# as the logo"]),
        ("a.py", 'colour = "#fff # not one"  # one', 'colour = "#fff # not one"', ["# one"]),
        ("a.toml", 'url = "http://a/#b" # where', 'url = "http://a/#b"', ["# where"]),
        ("a.c", "#define LIMIT 50", "#define LIMIT 50", []),
        ("a.c", "int n = 50; /* as before */", "int n = 50;", ["/* as before */"]),
        ("config.yaml", "# the pool is the cause", "", []),
        ("a.py", '"""the pool is the cause"""', "", []),
    ],
)
def test_a_comment_is_told_from_code(path: str, line: str, code: str, comments: list[str]) -> None:
    [(found, beside)] = code_and_comments(lines_of(line, reading_of(path, line).SerializeToString()))
    assert (found.rstrip(), beside) == (code, comments)


def test_where_nobody_knows_what_is_code_a_claim_fails() -> None:
    unread = reading_of("a.unheardof", "limit 50")
    for fragment, why in (
        (lines_of("limit 50", unread.SerializeToString()), unread.unread),
        (lines_of("limit 50"), "release"),
    ):
        with pytest.raises(EvidenceFails, match=why):
            list(code_and_comments(fragment))


def lines_of(content: str, reading: bytes | None = None) -> Fragment:
    """A line of a file, with what is known of it."""
    fragment = Fragment(file="a", first_line=1, last_line=1, commit="c", content=content, total_lines=1, symbol="")
    return fragment if reading is None else {**fragment, "reading": reading}


def test_evidence_has_one_source() -> None:
    code = {"file": "a", "first_line": 1, "last_line": 1, "quote": "x = 1"}
    query = {"query": "SELECT 1", "row": {"a": 1}}
    for sources in ({}, {"code": code, "query": query}):
        with pytest.raises(ValidationError, match="exactly one"):
            Evidence.model_validate({"claim": "so", **sources})
    assert Evidence.model_validate({"claim": "so", "code": code, "beside": 1}).code


@pytest.mark.parametrize(
    "wrong",
    [
        {"root_cause": " "},
        {"evidence": []},
        {"confidence": -0.1},
        {"confidence": float("nan")},
        {"cause_found": False, "explanation": ""},
        {"timeline": [{"time": "2026-01-27T09:10:00", "event": "no zone"}]},
    ],
)
def test_a_conclusion_is_whole(wrong: dict[str, object]) -> None:
    path = {"nodes": [{"label": "S", "key": "a"}, {"label": "S", "key": "b"}], "edges": [{"type": "D"}]}
    whole = {"cause_found": True, "root_cause": "a", "confidence": 1, "evidence": [{"claim": "c", "graph_path": path}]}
    Conclusion.model_validate(whole)
    with pytest.raises(ValidationError):
        Conclusion.model_validate({**whole, **wrong})


def test_its_schema_stands_by_itself() -> None:
    assert "$ref" not in str(ANSWER.schema)
    row = ANSWER.schema["properties"]["evidence"]["items"]["properties"]["query"]["properties"]["row"]
    assert {"type": "null"} in row["additionalProperties"]["anyOf"]
