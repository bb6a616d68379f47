"""The evaluation with the offline model: nothing it says is wrong, and what it scores can be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.evaluation.__main__ import evaluate, standing
from tests.evaluation.agents import AGENTS
from tests.evaluation.asking import read_cases
from tests.evaluation.results import Evaluation, Result, Score, compare, table
from tests.fixtures.stack import World


async def test_the_offline_model_is_right_or_declines(harbour: World, tmp_path: Path) -> None:
    async with standing(harbour) as (running, around):
        found = await evaluate(running, around, list(AGENTS), at_once=4, path=tmp_path / "offline.md")
        written = Evaluation.read(tmp_path / "offline.json")
        assert written == found
        # What a file has is not asked again.
        assert (await evaluate(running, around, ["data_chat"], before=written)).results == found.results
    assert found.agents == list(AGENTS)
    told = table(found)
    for agent in AGENTS:
        scores = [each.score for each in found.of(agent)]
        assert not {Score.WRONG, Score.FAILED, Score.REFUSED}.intersection(scores), told
        assert scores.count(Score.RIGHT) >= len(scores) / 2, told
    # Who is blocked by rules has asked no model.
    assert all(each.seconds > 0 and (each.tokens > 0 or "BLOCKED" in each.ended) for each in found.results), told
    assert all(each.ended for each in found.results), told
    assert (tmp_path / "offline.md").read_text() == told


def test_at_least_forty_of_an_agents_cases_are_in_peoples_own_words() -> None:
    assert len(read_cases("data_chat")) >= 40
    assert len(read_cases("graph_editor")["cases"]) >= 40
    assert sum(map(len, read_cases("incident_investigation").values())) >= 40


def test_what_differs_between_two_evaluations_is_shown() -> None:
    first = Result("data_chat", "How many?", Score.RIGHT, "13", 100, 0.5)
    second = replace(first, case="How few?", tokens=300)
    before = Evaluation({"all": "one"}, {}, [first, second])
    after = replace(before, models={"all": "other"}, results=[first, replace(second, score=Score.WRONG, said="14")])
    assert compare(before, after).splitlines()[2:] == [
        "| data_chat | 2 | 2 → 1 | 0 | 0 | 0 → 1 | 0 | 1 → -0.5 | 200 | 0.5 |",
        "",
        "- data_chat: “How few?” right → wrong: 14",
    ]
