"""The guard in front of a hosted graph: it screens what the policy points at, before any node runs."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from signalbox_routing.table import END, Decision

from services.kit.outcome import Outcome
from services.kit.telemetry.names import RUN_ID
from services.runtime.agents.screening import ALLOWED, BLOCKED, UNSCREENED, refusal
from services.runtime.calls.guard_client import GuardClient
from services.runtime.engine.records import Ending, RunState
from services.runtime.errors import DependencyAway, GuardFailed
from services.runtime.hosted.session import HostedSession
from services.runtime.routing.calls import Allowance, allowing, collecting
from services.runtime.routing.recorder import (
    DecidedRecord,
    DecisionRecord,
    DecisionRecorder,
    DestinationRecord,
    StepRecord,
    step_record,
)
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.storable import presentable

# A path into the input: `question`, `messages[-1].content`, `$.notes[*].text`.
PATH: Final = r"^(\$\.)?[\w-]+(\[(-?\d{1,6}|\*)\])*(\.[\w-]+(\[(-?\d{1,6}|\*)\])*)*$|^$"
SCREEN_INPUT: Final = "screen_input"
GUARD_UNAVAILABLE: Final = "guard_unavailable"
NOTHING_TO_SCREEN: Final = "nothing_to_screen"
_PART: Final = re.compile(r"[\w-]+|\[(?:-?\d+|\*)\]")


class InputNotAdmitted(Exception):
    """An input that is blocked, or that there is no verdict on: nothing of the graph runs. `ending` is the run's."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.stop_reason)
        self.ending = ending


def admission_router(agent: str) -> str:
    """Returns the name under which the guard's verdict on inputs of an agent is in the ledger."""
    return f"{agent}.route_after_{SCREEN_INPUT}"


async def admit(
    session: HostedSession, guard: GuardClient, run: RunContext, agent: str, first: str, text: str
) -> StepRecord:
    """Screens what an input says; returns the record of a verdict that lets it in, to be kept before any node runs.

    Raises InputNotAdmitted; RunWaits for a guard that is away.
    """
    visit = session.visit(f"{SCREEN_INPUT}/{run.run_id}", SCREEN_INPUT)
    rule, reason, ending = ALLOWED, ALLOWED, None
    with session.inside(visit), collecting() as calls, allowing(Allowance(session.spent, session.budget)):
        try:
            if not text:
                said = "the policy has the input screened, and it holds no text where `screened_input` points"
                rule, reason, ending = NOTHING_TO_SCREEN, "", Ending(RunState.FAILED, None, NOTHING_TO_SCREEN, said)
            else:
                screening = await guard.screen(run, text)
                reason = screening.reason
                if not screening.allowed:
                    said = refusal("input", reason)
                    rule, ending = BLOCKED, Ending(RunState.SUCCEEDED, None, BLOCKED, said, Outcome.BLOCKED)
        except DependencyAway as away:
            for call in calls:
                session.note(call, visit)
            calls.clear()
            if waits := session.wait(visit, away):
                raise waits from away
            said = f"{away.message}. Nothing was looked at; it may be asked again."
            rule, reason = GUARD_UNAVAILABLE, away.cause
            ending = Ending(RunState.FAILED, None, rule, presentable(said), retryable=True)
        except GuardFailed as failed:
            rule, reason = GUARD_UNAVAILABLE, failed.cause
            ending = Ending(RunState.FAILED, None, rule, presentable(failed.message))
    for call in calls:
        session.note(call, visit)
    decision = _decision(session, agent, rule, reason, END if ending else first)
    record = step_record(
        SCREEN_INPUT, visit.end(), [*session.take_attempts(visit.task_id), *visit.calls], decision, concludes=False
    )
    record["task"] = visit.task_id
    session.recorded(visit, record)
    if ending is None:
        return record
    session.failed, session.failure = record, InputNotAdmitted(ending)
    raise session.failure


def _decision(session: HostedSession, agent: str, rule: str, reason: str, to: str) -> DecisionRecord:
    screening = rule if rule in (ALLOWED, BLOCKED) else UNSCREENED
    facts = {"screening": screening, "reason": presentable(reason)}
    router = admission_router(agent)
    made = DecisionRecorder(agent).record(
        decision_id=uuid.uuid5(uuid.NAMESPACE_OID, f"{session.run_id}/{router}").hex,
        router=router,
        policy_version="",
        node=SCREEN_INPUT,
        decision=Decision(rule, to, {}, grounds=facts, rejected=(), facts=facts),
        state={RUN_ID: session.run_id},
    )
    decided = DecidedRecord(
        by="code", destinations=[DestinationRecord(node=to, count=1)], remark="the guard's verdict on the input"
    )
    return DecisionRecord(**{**made, "decided": decided})


def text_at(path: str, given: Mapping[str, Any]) -> str:
    """Returns the texts at a path into an input, one a line; what is no text as JSON; empty where there is nothing."""
    parts = _PART.findall(path.removeprefix("$."))
    found = [each for each in _at(parts, given) if each not in (None, "", [], {})]
    return "\n".join(each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in found)


def texts_of(value: Any) -> Iterator[str]:
    """Yields all texts in JSON, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield str(name)
            yield from texts_of(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from texts_of(part)


def _at(parts: list[str], value: Any) -> Iterator[Any]:
    if not parts:
        yield value
        return
    part, rest = parts[0], parts[1:]
    if part == "[*]":
        for each in value if isinstance(value, list) else ():
            yield from _at(rest, each)
    elif part.startswith("["):
        number = int(part[1:-1])
        if isinstance(value, list) and -len(value) <= number < len(value):
            yield from _at(rest, value[number])
    elif isinstance(value, Mapping) and part in value:
        yield from _at(rest, value[part])
