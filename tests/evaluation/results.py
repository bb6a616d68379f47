"""What came of an evaluation: scores by agent, as a table and as JSON, and two of them side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

# What a run is asked with: names of models, digests of prompts, versions of limits; by agent, and by the service that
# asks a model for it.
KINDS: Final = ("models", "prompts", "policies")
AskedWith = dict[str, dict[str, list[str]]]


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
    asked_with: AskedWith = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Agent and case."""
        return self.agent, self.case


@dataclass(frozen=True)
class Evaluation:
    """All results."""

    results: list[Result]

    def of(self, agent: str) -> list[Result]:
        """The results of an agent."""
        return [each for each in self.results if each.agent == agent]

    @property
    def agents(self) -> list[str]:
        """The agents, in the order in which they were asked."""
        return list(dict.fromkeys(each.agent for each in self.results))

    @property
    def cases(self) -> set[tuple[str, str]]:
        """The agents and cases that were asked."""
        return {each.key for each in self.results}

    @property
    def asked_with(self) -> dict[str, dict[str, str]]:
        """What the runs were asked with, by agent, and by the service that asked a model; all, where runs differ."""
        found: dict[str, dict[str, list[str]]] = {kind: {} for kind in KINDS}
        for each in self.results:
            for kind, by_owner in each.asked_with.items():
                for owner, values in by_owner.items():
                    known = found[kind].setdefault(owner, [])
                    known += [value for value in values if value not in known]
        return {
            kind: {owner: " and ".join(values) for owner, values in by_owner.items()}
            for kind, by_owner in found.items()
        }

    def write(self, path: Path) -> None:
        """Writes the table to a Markdown file, and everything to a JSON file beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".md").write_text(table(self), encoding="utf-8")
        path.with_suffix(".json").write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Evaluation:
        """Reads what `write` has written as JSON."""
        document = json.loads(path.read_text(encoding="utf-8"))
        return cls([Result(**{**each, "score": Score(each["score"])}) for each in document["results"]])


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
    """Returns what was asked with, the table of an evaluation, then every case that is not right."""
    rows = [[agent, *(f"{each(evaluation.of(agent)):g}" for each in _MEASURES.values())] for agent in evaluation.agents]
    asked_with = [f"{kind.capitalize()}: {_by_value(told)}" for kind, told in evaluation.asked_with.items()]
    missed = [each for each in evaluation.results if each.score is not Score.RIGHT]
    lines = [f"- {each.agent}, {each.score} ({each.ended}): “{each.case}” → {each.said}" for each in missed]
    return "\n".join([*_lines(asked_with), *_markdown(["agent", *_MEASURES], rows), "", *lines, ""])


def compare(before: Evaluation, after: Evaluation) -> str:
    """Returns what differs, both evaluations side by side, `before → after`, then every case whose score differs.

    Cases that only one of them was asked are left out.
    """
    both = before.cases & after.cases
    left_out = len(before.cases ^ after.cases)
    before, after = (Evaluation([each for each in of.results if each.key in both]) for of in (before, after))
    rows = [
        [agent, *(_change(each(before.of(agent)), each(after.of(agent))) for each in _MEASURES.values())]
        for agent in before.agents
    ]
    changed = [
        f"{kind.capitalize()}: {_by_value(_changes(before.asked_with[kind], after.asked_with[kind])) or 'the same'}"
        for kind in KINDS
    ]
    changed.append(f"Cases: {len(both)} of both, {left_out} of one alone, which are left out")
    return "\n".join([*_lines(changed), *_markdown(["agent", *_MEASURES], rows), "", *_differing(before, after), ""])


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Returns what is different for those that were asked both times."""
    return {
        owner: f"{before[owner]} → {after[owner]}"
        for owner in before
        if owner in after and before[owner] != after[owner]
    }


def _by_value(told: Mapping[str, str]) -> str:
    """Returns each value once, with those that have it: `large (guard, data_chat)`."""
    return "; ".join(
        f"{value} ({', '.join(owner for owner, other in told.items() if other == value)})"
        for value in dict.fromkeys(told.values())
    )


def _lines(told: Iterable[str]) -> Iterator[str]:
    """Yields lines of Markdown that stay lines of their own, and an empty one."""
    yield from (f"- {each}" for each in told)
    yield ""


def _differing(before: Evaluation, after: Evaluation) -> Iterator[str]:
    earlier = {each.key: each.score for each in before.results}
    for each in after.results:
        if (score := earlier[each.key]) is not each.score:
            yield f"- {each.agent}: “{each.case}” {score} → {each.score}: {each.said}"


def _change(before: float, after: float) -> str:
    return f"{before:g}" if before == after else f"{before:g} → {after:g}"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
