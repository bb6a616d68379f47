"""Owners of runs on a real database, and the book that is kept of what they do: what the lease protocol's moves use."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from hypothesis.stateful import RuleBasedStateMachine
from langgraph.checkpoint.base import empty_checkpoint

from services.kit.identity import Caller
from services.runtime.engine.claim import Claim
from services.runtime.engine.database import open_pool
from services.runtime.engine.records import ActiveRunPolicy, NewRun, RunRecord
from services.runtime.engine.saver import RunSaver
from services.runtime.engine.serde import make_serde
from services.runtime.engine.store import RunStore
from services.runtime.errors import ClaimLost
from services.runtime.routing.recorder import DecisionRecord, StepRecord
from services.runtime.routing.state import Budget
from tests.integration.runtime.lease_model import PENDING, Held, Model, ModelRun

T = TypeVar("T")
LEASE_S = 1000.0
CALLER = Caller("27")
AGENTS = ("any",)
OWNERS = ("anna", "boris", "clara")


def new_run(thread: str | None) -> NewRun:
    """A run of a thread, queued behind those before it."""
    budget = Budget(model_calls=0, tool_calls=0, tokens=0, wall_time_s=0.0)
    policy = ActiveRunPolicy.QUEUE
    return NewRun(*AGENTS, "1", CALLER, b"", budget, "correlation", thread_id=thread, active_run_policy=policy)


def step_record() -> StepRecord:
    """A node that ran and led to a decision."""
    texts = ("decision_id", "router", "rule", "destination", "policy_version", "trace_id", "span_id")
    decision = {**dict.fromkeys(texts, "x"), "rejected_rules": [], "grounds": {}, "facts": {}}
    return StepRecord(node="node", ended_at=0.0, elapsed_ms=0.0, calls=[], decision=cast(DecisionRecord, decision))


TABLES: LiteralString = "runs, threads, run_events, decisions, checkpoints, checkpoint_writes"


class Owners(RuleBasedStateMachine):
    """Owners, alive and dead, and the model of what they have done."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._loop = asyncio.Runner()
        self._opened = open_pool(dsn, size=4)
        self._pool = self.wait(self._opened.__aenter__())
        self._admin = psycopg.connect(dsn, autocommit=True)
        self._admin.execute(f"TRUNCATE {TABLES}")
        self.model = Model()
        self.names = {owner: owner for owner in OWNERS}
        for owner in OWNERS:
            self.begin_life(owner)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Does asynchronous work."""
        return self._loop.run(work)

    def store(self, owner: str) -> RunStore:
        """The store of an owner as it lives now."""
        return RunStore(self._pool, owner=self.names[owner], lease_s=LEASE_S)

    def begin_life(self, owner: str) -> None:
        """Takes the liveness lock of an owner."""
        self._admin.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [self.names[owner]])
        self.model.alive.add(self.names[owner])

    def executing(self, owner: str) -> set[str]:
        """The runs that an owner believes to execute: all that it ever claimed in this life and was told of."""
        return {run.run_id for run in self.model.runs.values() if run.owner == self.names[owner] and not run.stray}

    def add(self, run_id: str, thread: str | None) -> str:
        """Takes down a run that was created."""
        self.model.runs[run_id] = ModelRun(run_id, thread, PENDING)
        return run_id

    def note_claims(self, owner: str, found: list[RunRecord]) -> list[Held]:
        """Takes down what an owner claimed."""
        claims = [self.model.runs[run.run_id].claimed(self.names[owner]) for run in found]
        assert [held.epoch for held in claims] == [run.epoch for run in found]
        return claims

    def age(self, held: Held, moment: LiteralString) -> None:
        """Has the lease of a run end at another moment."""
        statement = f"UPDATE runs SET lease_expires_at = {moment} WHERE run_id = %s AND state = 'RUNNING'"  # noqa: S608
        self._admin.execute(statement, [held.run_id])

    async def write(self, held: Held) -> bool:
        """Writes a step, with whatever a zombie believes."""
        saver = RunSaver(self._pool, make_serde(), claim=Claim(held.run_id, held.epoch))
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"steps": [step_record()]}
        config: Any = {"configurable": {"thread_id": held.run_id, "checkpoint_ns": ""}}
        try:
            await saver.aput(config, checkpoint, {}, {"steps": saver.get_next_version(None, None)})
        except ClaimLost:
            return False
        return True

    def leave(self, held: Held, work: Coroutine[Any, Any, Any], state: str) -> bool:
        """Moves a run out of its owner's hands, which works if the claim is effective, and only then."""
        run = self.model.runs[held.run_id]
        honoured = run.honours(held)
        try:
            self.wait(work)
            assert honoured, "a claim that is not effective moved the run"
        except ClaimLost:
            assert not honoured, "the effective owner was refused"
        if honoured:
            run.left(state)
        return honoured

    def record(self, held: Held) -> RunRecord:
        """The run as the holder of a claim believes it to be."""
        return replace(self.wait(self.store("anna").get(held.run_id, CALLER)), epoch=held.epoch)
