"""What came of an evaluation: scores by agent, as a table and as JSON, and two of them side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class Score(StrEnum):
    """What an answer is worth; a wrong one is worse than none."""

    RIGHT = "right"
    DECLINED = "declined"
    # What may be asked was blocked.
    REFUSED = "refused wrongly"
    WRONG = "wrong"
    # The run itself failed: no answer of the agent's.
    FAILED = "failed"


@dataclass(frozen=True)
class Result:
    """What came of one case; `said` is the beginning of the answer, `ended` what the run says of its end."""

    agent: str
    case: str
    score: Score
    said: str
    tokens: int
    seconds: float
    ended: str = ""


@dataclass(frozen=True)
class Evaluation:
    """All results, and what was asked: models by role, and the versions of the agents' policies."""

    models: dict[str, str]
    policies: dict[str, str]
    results: list[Result]

    def of(self, agent: str) -> list[Result]:
        """The results of an agent."""
        return [each for each in self.results if each.agent == agent]

    @property
    def agents(self) -> list[str]:
        """The agents, in the order in which they were asked."""
        return list(dict.fromkeys(each.agent for each in self.results))

    def write(self, path: Path) -> None:
        """Writes the table to a Markdown file, and everything to a JSON file beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".md").write_text(table(self), encoding="utf-8")
        path.with_suffix(".json").write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Evaluation:
        """Reads what `write` has written as JSON."""
        document = json.loads(path.read_text(encoding="utf-8"))
        results = [Result(**{**each, "score": Score(each["score"])}) for each in document.pop("results")]
        return cls(**document, results=results)


Measure = Callable[[Sequence[Result]], float]


def _count(score: Score) -> Measure:
    return lambda results: sum(each.score is score for each in results)


_MEASURES: dict[str, Measure] = {
    "cases": len,
    **{score.value: _count(score) for score in Score},
    # One point for what is right, two off for what is wrong, by the number of cases.
    "mark": lambda results: round((_count(Score.RIGHT)(results) - 2 * _count(Score.WRONG)(results)) / len(results), 2),
    "tokens a run": lambda results: round(sum(each.tokens for each in results) / len(results)),
    "s a run": lambda results: round(sum(each.seconds for each in results) / len(results), 2),
}


def table(evaluation: Evaluation) -> str:
    """Returns the table of an evaluation, then every case that is not right."""
    rows = [[agent, *(f"{each(evaluation.of(agent)):g}" for each in _MEASURES.values())] for agent in evaluation.agents]
    models = ", ".join(f"{role}: {model}" for role, model in evaluation.models.items())
    missed = [each for each in evaluation.results if each.score is not Score.RIGHT]
    lines = [f"- {each.agent}, {each.score} ({each.ended}): “{each.case}” → {each.said}" for each in missed]
    return "\n".join([f"Models: {models}", "", *_markdown(["agent", *_MEASURES], rows), "", *lines, ""])


def compare(before: Evaluation, after: Evaluation) -> str:
    """Returns both evaluations side by side, `before → after`, then every case whose score differs."""
    agents = [agent for agent in before.agents if agent in after.agents]
    rows = [
        [agent, *(_change(each(before.of(agent)), each(after.of(agent))) for each in _MEASURES.values())]
        for agent in agents
    ]
    return "\n".join([*_markdown(["agent", *_MEASURES], rows), "", *_differing(before, after), ""])


def _differing(before: Evaluation, after: Evaluation) -> Iterator[str]:
    earlier = {(each.agent, each.case): each.score for each in before.results}
    for each in after.results:
        score = earlier.get((each.agent, each.case), each.score)
        if score is not each.score:
            yield f"- {each.agent}: “{each.case}” {score} → {each.score}: {each.said}"


def _change(before: float, after: float) -> str:
    return f"{before:g}" if before == after else f"{before:g} → {after:g}"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
