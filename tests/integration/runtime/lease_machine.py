"""Owners of runs on a real database, and the book that is kept of what they do: what the lease protocol's moves use."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from hypothesis.stateful import RuleBasedStateMachine
from langgraph.checkpoint.base import empty_checkpoint

from services.kit.identity.caller import Caller
from services.runtime.engine.carrier import Claimable
from services.runtime.engine.claim import Claim
from services.runtime.engine.database import Pools, open_pool
from services.runtime.engine.pins import Pins
from services.runtime.engine.questions import Questions
from services.runtime.engine.records import ActiveRunPolicy, NewRun, RunRecord
from services.runtime.engine.saver import RunSaver
from services.runtime.engine.serde import make_serde
from services.runtime.engine.store import RunStore
from services.runtime.engine.upkeep import Upkeep
from services.runtime.errors import ClaimLost
from services.runtime.routing.recorder import DecisionRecord, StepRecord
from services.runtime.routing.state import Budget
from tests.integration.runtime.lease_model import PENDING, RUNNING, Held, Model, ModelRun

T = TypeVar("T")
LEASE_S = 1000.0
CALLER = Caller("27")
AGENT, VERSION = "any", "any version"
AGENTS = Claimable({AGENT: VERSION})
OWNERS = ("anna", "boris", "clara")
# Of the release before: it has no lease but those of its runs.
OLD_RELEASE = "clara"
# Deaths of its owners that would have a run be run alone.
NEVER = 1_000_000


def new_run(thread: str | None) -> NewRun:
    """A run of a thread, queued behind those before it."""
    budget = Budget(model_calls=0, tool_calls=0, tokens=0, wall_time_s=0.0)
    policy = ActiveRunPolicy.QUEUE
    return NewRun(AGENT, VERSION, CALLER, b"", budget, "correlation", thread_id=thread, active_run_policy=policy)


def step_record() -> StepRecord:
    """A node that ran and led to a decision."""
    texts = ("decision_id", "router", "rule", "destination", "policy_version", "trace_id", "span_id")
    decision = {**dict.fromkeys(texts, "x"), "rejected_rules": [], "grounds": {}, "facts": {}}
    return StepRecord(node="node", ended_at=0.0, elapsed_ms=0.0, calls=[], decision=cast(DecisionRecord, decision))


TABLES: LiteralString = (
    "platform.runs, platform.run_keys, platform.questions, platform.threads, platform.run_events, platform.decisions, "
    "platform.checkpoints, platform.checkpoint_writes, platform.replicas"
)


class Owners(RuleBasedStateMachine):
    """Owners, alive and dead, and the model of what they have done."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._loop = asyncio.Runner()
        self._opened = open_pool(dsn, size=4)
        self._pool = self.wait(self._opened.__aenter__())
        self._pools = Pools.shared(self._pool)
        self._pins = Pins(self._pool, {})
        self._admin = psycopg.connect(dsn, autocommit=True)
        self._admin.execute(f"TRUNCATE {TABLES} CASCADE")
        self.model = Model()
        self.names = {owner: owner for owner in OWNERS}
        for owner in OWNERS:
            self.begin_life(owner)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Does asynchronous work."""
        return self._loop.run(work)

    def store(self, owner: str) -> RunStore:
        """The store of an owner as it lives now."""
        return RunStore(self._pools, self._pins, owner=self.names[owner], lease_s=LEASE_S)

    def questions(self) -> Questions:
        """What runs ask people."""
        return Questions(self._pools.calls)

    def upkeep(self, owner: str) -> Upkeep:
        """The upkeep of an owner as it lives now."""
        return Upkeep(self._pools, self._pins, owner=self.names[owner], lease_s=LEASE_S, suspect_after=NEVER)

    def begin_life(self, owner: str) -> None:
        """Takes the liveness lock of an owner."""
        self._admin.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [self.names[owner]])
        self.model.alive.add(self.names[owner])
        if owner != OLD_RELEASE:
            self.wait(self.upkeep(owner).renew_leases(()))

    def executing(self, owner: str) -> set[str]:
        """The runs that an owner believes to execute: all that it ever claimed in this life and was told of."""
        return {run.run_id for run in self.model.runs.values() if run.owner == self.names[owner] and not run.stray}

    def known(self, owner: str) -> list[RunRecord]:
        """The same, as records."""
        return [self.wait(self.store(owner).get(run_id, CALLER)) for run_id in self.executing(owner)]

    def add(self, run_id: str, thread: str | None) -> str:
        """Takes down a run that was created."""
        self.model.runs[run_id] = ModelRun(run_id, thread, PENDING)
        return run_id

    def note_claims(self, owner: str, found: list[RunRecord]) -> list[Held]:
        """Takes down what an owner claimed."""
        claims = [self.model.claimed(run.run_id, self.names[owner], run.claim_id) for run in found]
        assert [held.epoch for held in claims] == [run.epoch for run in found]
        return claims

    def let_lapse(self, owner: str) -> None:
        """Has the lease of an owner run out, or those of its runs."""
        if owner == OLD_RELEASE:
            statement: LiteralString = (
                "UPDATE platform.runs SET lease_expires_at = now() - interval '1 s' WHERE owner = %s"
            )
        else:
            self.model.lapsed.add(self.names[owner])
            statement = "UPDATE platform.replicas SET lease_expires_at = now() - interval '1 s' WHERE owner = %s"
        self._admin.execute(statement, [self.names[owner]])
        for run in self.model.runs.values():
            run.expired |= run.state == RUNNING and run.owner == self.names[owner]

    async def write(self, held: Held) -> bool:
        """Writes a step, with whatever a zombie believes."""
        saver = RunSaver(self._pool, make_serde(), claim=Claim(held.run_id, held.epoch, held.claim_id))
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
        return replace(self.wait(self.store("anna").get(held.run_id, CALLER)), epoch=held.epoch, claim_id=held.claim_id)
