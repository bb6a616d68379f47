"""A finding whose snippet nobody could hold against the commit is held against it by the platform."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fixtures.scripted_model import Reply
from tests.integration.code_agents.conftest import (
    DB,
    FILES,
    FLAGGED,
    TAINTED,
    Bench,
    EndedReview,
    MakeBench,
    critique,
    draft,
    final,
)

AGENTS = ("sast_triage", "sast_investigation")
# So low that no call goes unnoticed which the costs of the nodes do not declare.
LEAST: dict[str, Any] = {
    "sast_triage": {"max_iterations": 1},
    "sast_investigation": {"max_iterations": 1, "research_model_calls": 1, "research_calls_per_turn": 1},
}


async def ended(bench: Bench, agent: str) -> EndedReview:
    fetch = Reply.tool_call("fetch_code", {"path": "app/db.py", "first_line": FLAGGED})
    if agent == "sast_triage":
        bench.model.script("triage", [fetch, Reply.tool_call("analyze_issue", {}), draft("TRUE_POSITIVE", TAINTED)])
        bench.model.script("judge", [final()])
        return await bench.triage()
    bench.model.script("research", [fetch, Reply.text("Enough.")])
    bench.model.script("analysis", [draft("TRUE_POSITIVE", TAINTED)])
    bench.model.script("judge", [critique("approved")])
    return await bench.investigate()


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_snippet_that_contradicts_the_commit_is_noted_and_looked_at_by_no_model(
    bench: Bench, agent: str
) -> None:
    bench.finding.snippet, bench.finding.check_snippet = "    return connection.execute(other_code)", True
    found = await ended(bench, agent)
    assert found.verdict == "TRUE_POSITIVE"
    (note,) = found.output.notes
    assert f"app/db.py:{FLAGGED}" in note
    snippets = [prompt for prompt in map(str, bench.model.requests) if '"snippet"' in prompt]
    assert not snippets


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    ("snippet", "check"),
    [
        (DB.splitlines()[FLAGGED - 1], True),
        (DB.splitlines()[FLAGGED - 1].strip()[:20], True),
        ("\n".join(DB.splitlines()[FLAGGED - 1 : FLAGGED + 3]), True),
        ("", True),
        ("of the code around it, or somebody has looked already", False),
    ],
    ids=["the line", "a part of it", "more lines than the region says", "none", "not to be checked"],
)
async def test_any_other_is_investigated(bench: Bench, agent: str, snippet: str, check: bool) -> None:
    bench.finding.snippet, bench.finding.check_snippet = snippet, check
    assert (await ended(bench, agent)).verdict == "TRUE_POSITIVE"


@pytest.mark.parametrize("agent", AGENTS)
async def test_the_call_that_it_takes_is_one_of_those_that_are_proved(make_bench: MakeBench, agent: str) -> None:
    async with make_bench(policies=json.dumps(LEAST)) as bench, bench.runtime():
        bench.finding.check_snippet = True
        # What is recorded is held against the costs and bounds under these limits.
        found = await ended(bench, agent)
    assert (found.verdict, found.run.spend.tool_calls) == ("TRUE_POSITIVE", 2)


@pytest.mark.parametrize(("quoted", "notes"), [("# für alle", 0), ("# für niemand", 1)])
async def test_code_that_is_not_utf_8_is_compared_as_far_as_it_can_be(
    make_bench: MakeBench, quoted: str, notes: int
) -> None:
    lines = DB.splitlines()
    flagged = lines[FLAGGED - 1]
    lines[FLAGGED - 1] = flagged + "  # für alle"
    async with make_bench({**FILES, "app/db.py": "\n".join(lines).encode("latin-1")}) as bench, bench.runtime():
        bench.finding.snippet, bench.finding.check_snippet = f"{flagged}  {quoted}", True
        assert len((await ended(bench, "sast_triage")).output.notes) == notes
