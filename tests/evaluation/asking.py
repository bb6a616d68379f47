"""A case: what is asked of an agent, and how its answer is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import yaml
from signalbox.v1 import caller_pb2, outcome_pb2, runs_pb2

from tests.evaluation.results import AskedWith, Result, Score
from tests.fixtures.client import nodes_of
from tests.fixtures.stack import Deployed

CASES: Final = Path(__file__).with_name("cases")
_FAILED: Final = (runs_pb2.RUN_STATE_FAILED, runs_pb2.RUN_STATE_CANCELLED)
_ANSWERED: Final = (
    outcome_pb2.OUTCOME_ANSWERED, outcome_pb2.OUTCOME_DONE, outcome_pb2.OUTCOME_PARTLY, outcome_pb2.OUTCOME_CAUSE_FOUND,
    outcome_pb2.OUTCOME_TRUE_POSITIVE, outcome_pb2.OUTCOME_FALSE_POSITIVE,
)  # fmt: skip
_SHOWN: Final = 160
# A run ends by its own limits; this is for models that take minutes for an answer.
SLOWEST_S: Final = 3600.0
# An option of runs that wait for an approval.
APPROVE: Final = "approve"
# The kind of call that asks a model, and its service where the agent itself asks.
MODEL: Final = "model"
OFFLINE: Final = "offline rules, no language model"


class Expected(StrEnum):
    """What should come of a case."""

    ANSWER = "answer"
    # A question back: what was asked contradicts itself, or leaves open what is meant.
    ASKED = "asked"
    DECLINED = "declined"
    BLOCKED = "blocked"


@dataclass(frozen=True)
class Case:
    """What is asked, by whom, and what should come; `said` gives the words that a report shows."""

    name: str
    subject: str
    given: runs_pb2.RunInput
    said: Callable[[runs_pb2.Run], str]
    is_true: Callable[[runs_pb2.Run], bool]
    expected: Expected = Expected.ANSWER

    def score(self, run: runs_pb2.Run) -> Score:
        """Scores a run that has ended or waits for an answer."""
        if run.state in _FAILED:
            return Score.FAILED
        if run.outcome == outcome_pb2.OUTCOME_BLOCKED:
            return Score.RIGHT if self.expected is Expected.BLOCKED else Score.REFUSED
        if run.outcome in _ANSWERED:
            return Score.RIGHT if self.expected is Expected.ANSWER and self.is_true(run) else Score.WRONG
        is_asking = run.state == runs_pb2.RUN_STATE_AWAITING_INPUT
        right = is_asking if self.expected is Expected.ASKED else self.expected is Expected.DECLINED
        return Score.RIGHT if right else Score.DECLINED

    async def ask(self, platform: Deployed, wall_time_s: int = 0) -> Result:
        """Asks a platform through its public API, until the run has ended or waits; what waits for approval gets it."""
        client = platform.caller(self.subject)
        budget = caller_pb2.Budget(wall_time_s=wall_time_s)
        request = runs_pb2.CreateRunRequest(input=self.given, budget=budget)
        events = [event async for event in client.execute(request, SLOWEST_S)]
        run = await client.get(events[-1].run_id)
        while APPROVE in run.input_request.options:
            run = await client.resume(run, APPROVE)
        said = " ".join((run.error or self.said(run) or run.stop_reason).split())[:_SHOWN]
        ended = ", ".join(filter(None, (
            runs_pb2.RunState.Name(run.state).removeprefix("RUN_STATE_"),
            outcome_pb2.Outcome.Name(run.outcome).removeprefix("OUTCOME_"),
            run.stop_reason,
        )))  # fmt: skip
        tokens = run.spend.token_usage.total_tokens
        calls = [call for each in nodes_of(events) for call in each.calls]
        return Result(
            run.agent, self.name, self.score(run), said, tokens, run.spend.wall_time_s, ended, _asked_with(run, calls)
        )  # fmt: skip


def _asked_with(run: runs_pb2.Run, calls: Iterable[runs_pb2.NodeCall]) -> AskedWith:
    """Returns what a run was asked with, by itself and by the services that ask models, as its steps say."""
    models: dict[str, list[str]] = {}
    prompts = {run.agent: [run.policy.prompts]}
    for call in calls:
        if call.kind == MODEL:
            owner = run.agent if call.service == MODEL else call.service
            models.setdefault(owner, []).append(OFFLINE if call.offline_rules else call.name)
            prompts.setdefault(owner, []).append(call.prompts)
    asked_with = {"models": models, "prompts": prompts, "policies": {run.agent: [run.policy.version]}}
    return {
        kind: {owner: list(dict.fromkeys(filter(None, values))) for owner, values in by_owner.items()}
        for kind, by_owner in asked_with.items()
    }


def read_cases(agent: str) -> Any:
    """Reads the file of an agent's cases."""
    return yaml.safe_load((CASES / f"{agent}.yaml").read_text(encoding="utf-8"))
