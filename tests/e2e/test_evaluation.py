"""The evaluation with the offline model: nothing it says is wrong, and what it scores can be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.evaluation.__main__ import evaluate, standing
from tests.evaluation.agents import AGENTS
from tests.evaluation.asking import OFFLINE
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
        assert len(scores) >= 40
        assert not {Score.WRONG, Score.FAILED, Score.REFUSED}.intersection(scores), told
        assert scores.count(Score.RIGHT) >= len(scores) / 2, told
    # Who is blocked by rules has asked no model.
    assert all(each.seconds > 0 and (each.tokens > 0 or "BLOCKED" in each.ended) for each in found.results), told
    assert all(each.ended for each in found.results), told
    asked_with = found.asked_with
    askers = {*AGENTS, "guard", "evaluator"}
    assert asked_with["models"] == dict.fromkeys(askers, OFFLINE)
    # Each has prompts of its own, and each agent limits.
    assert asked_with["prompts"].keys() == askers
    assert len(set(asked_with["prompts"].values())) == len(askers)
    assert asked_with["policies"].keys() == set(AGENTS)
    assert (tmp_path / "offline.md").read_text() == told


def test_what_differs_between_two_evaluations_is_shown() -> None:
    with_small = {"models": {"data_chat": ["small"], "guard": ["small"]}, "prompts": {"data_chat": ["a1"]}}
    with_large = {"models": {"data_chat": ["large"], "guard": ["large"]}, "prompts": {"data_chat": ["a1"]}}
    first = Result("data_chat", "How many?", Score.RIGHT, "13", 100, 0.5, asked_with=with_small)
    second = replace(first, case="How few?", tokens=300)
    before = Evaluation([first, second])
    worse = replace(second, score=Score.WRONG, said="14")
    alone = replace(first, case="Who?")
    after = Evaluation([replace(each, asked_with=with_large) for each in (alone, first, worse)])
    assert compare(before, after).splitlines() == [
        "- Models: small → large (data_chat, guard)",
        "- Prompts: the same",
        "- Policies: the same",
        "- Cases: 2 of both, 1 of one alone, which are left out",
        "",
        "| agent | cases | right | declined | refused wrongly | wrong | failed | mark | tokens a run | s a run |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| data_chat | 2 | 2 → 1 | 0 | 0 | 0 → 1 | 0 | 1 → -0.5 | 200 | 0.5 |",
        "",
        "- data_chat: “How few?” right → wrong: 14",
    ]
    # Where some were asked with others, all are named.
    assert "- Models: small and large → small (data_chat)" in compare(
        Evaluation([first, replace(second, asked_with={"models": {"data_chat": ["large"]}})]), before
    )
