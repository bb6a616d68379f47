"""No interleaving of what replicas do to runs gives two effective owners, a lost run, or a gap in a record.

A machine of hypothesis makes moves on real Postgres as several owners, some of them dead, frozen or ill informed, and
compares the tables with a model after each. Every statement is a transaction, so an order of statements is an
interleaving; statements that run at the same moment are moves of their own (`race_…`).

Races end now so, now so. What is drawn never depends on that, else Hypothesis would find one example drawing otherwise
the second time it is tried: each move is always possible, and what it is about is a number, counted from the last.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from services.runtime.engine.questions import Answer
from services.runtime.engine.records import Ending, InputRequest, RunState
from services.runtime.errors import QuestionExpired, QuestionNotFound, RunEnded, StaleAnswer
from tests.integration.runtime.lease_machine import AGENTS, CALLER, OLD_RELEASE, OWNERS, Owners, new_run
from tests.integration.runtime.lease_model import (
    AWAITING_INPUT,
    CANCELLED,
    NEEDS_REVIEW,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Held,
)

MANY = 1000
_RENEW = """
    UPDATE platform.runs SET lease_expires_at = now() + interval '1000 s'
    WHERE owner = %s AND state = 'RUNNING' AND run_id = ANY (%s::uuid[])
"""
_BOOKS = """
    SELECT run_id::text, state, owner, epoch, event_count, decision_count,
        ARRAY(SELECT sequence FROM platform.run_events AS e WHERE e.run_id = r.run_id ORDER BY sequence),
        ARRAY(SELECT sequence FROM platform.decisions AS d WHERE d.run_id = r.run_id ORDER BY sequence)
    FROM platform.runs AS r
"""
owners = st.sampled_from(OWNERS)
threads = st.sampled_from([None, None, "one", "two"])
numbers = st.integers(0, 40)


def _claim(machine: LeaseProtocol, number: int) -> Held:
    return machine.claims[-1 - number % len(machine.claims)]


def _run(machine: LeaseProtocol, number: int) -> str:
    return list(machine.model.runs)[-1 - number % len(machine.model.runs)]


any_claim = st.builds(_claim, st.runner(), numbers)
any_run = st.builds(_run, st.runner(), numbers)


class LeaseProtocol(Owners):
    """The moves."""

    claims: list[Held]

    @initialize()
    def begin(self) -> None:
        self.claims = []
        self.create_claimed("anna", None)

    def teardown(self) -> None:
        """Brings every run to its end, whatever happened to it: none is lost."""
        try:
            self.finish()
        finally:
            self._admin.close()
            self.wait(self._opened.__aexit__(None, None, None))
            self._loop.close()

    # Creating and claiming

    @rule(thread=threads)
    def create(self, thread: str | None) -> None:
        run, is_new = self.wait(self.store("anna").create(new_run(thread), claim=False))
        assert (is_new, run.state, run.epoch) == (True, RunState.PENDING, 0)
        self.add(run.run_id, thread)

    @rule(owner=owners, thread=threads)
    def create_claimed(self, owner: str, thread: str | None) -> None:
        active = (PENDING, RUNNING, AWAITING_INPUT)
        busy = thread and any(run.thread == thread and run.state in active for run in self.model.runs.values())
        run, _ = self.wait(self.store(owner).create(new_run(thread), claim=True))
        self.add(run.run_id, thread)
        if busy:
            assert run.state is RunState.PENDING, "a thread may have one run under way"
            return
        assert (run.state, run.epoch) == (RunState.RUNNING, 1)
        self.claims.append(self.model.claimed(run.run_id, self.names[owner], run.claim_id))

    @rule(owner=owners)
    def claim(self, owner: str) -> None:
        expected = self.model.claimable()
        found = self.wait(self.upkeep(owner).claim_pending(MANY, AGENTS))
        assert {run.run_id for run in found} == set(expected), (
            "a pending run was passed over, or one that was not taken"
        )
        self.claims += self.note_claims(owner, found)

    @rule(owner=owners)
    def claim_and_never_hear(self, owner: str) -> None:
        for held in self.note_claims(owner, self.wait(self.upkeep(owner).claim_pending(1, AGENTS))):
            self.model.runs[held.run_id].stray = True

    @rule()
    def race_claims(self) -> None:
        expected = set(self.model.claimable())

        async def race() -> list[Any]:
            return await asyncio.gather(*(self.upkeep(owner).claim_pending(MANY, AGENTS) for owner in OWNERS))

        claimed: list[Held] = []
        for owner, found in zip(OWNERS, self.wait(race()), strict=True):
            claimed += self.note_claims(owner, found)
        assert {held.run_id for held in claimed} == expected
        self.claims += claimed

    # Losing claims

    @rule(owner=owners)
    def crash(self, owner: str) -> None:
        """The owner dies, and what is started in its place has a name of its own."""
        self._admin.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [self.names[owner]])
        self.model.alive.discard(self.names[owner])
        self.names[owner] += "'"
        self.begin_life(owner)

    @rule(owner=owners)
    def expire_leases(self, owner: str) -> None:
        self.let_lapse(owner)

    @rule(owner=owners)
    def renew(self, owner: str) -> None:
        executing = self.executing(owner)
        if owner == OLD_RELEASE:
            # By the ids of the runs that it knows of.
            self._admin.execute(_RENEW, [self.names[owner], list(executing)])
        else:
            self.wait(self.upkeep(owner).renew_leases(executing))
            self.model.lapsed.discard(self.names[owner])
        for run in self.model.runs.values():
            if run.owner == self.names[owner] and (owner != OLD_RELEASE or run.run_id in executing):
                run.expired = False

    @rule(owner=owners)
    def take_over(self, owner: str) -> None:
        expected = self.model.orphans(self.names[owner])
        orphans = self.wait(self.upkeep(owner).take_over())
        assert {run.run_id for run in orphans.freed} == expected
        assert orphans.found == len(expected)
        for run_id in expected:
            self.model.runs[run_id].given_up()

    @rule(owner=owners)
    def look_after_own(self, owner: str) -> None:
        expected = self.model.strays(self.names[owner])
        owned = self.wait(self.upkeep(owner).owned(self.known(owner)))
        found = [run for run in owned if not run.cancel_requested or run.run_id in expected]
        assert {run.run_id for run in found} == expected
        for stray in found:
            self.wait(self.store(owner).release(stray))
            self.model.runs[stray.run_id].given_up()

    @rule()
    def race_take_overs(self) -> None:
        expected = self.model.orphans(*self.names.values())

        async def race() -> list[Any]:
            return await asyncio.gather(*(self.upkeep(owner).take_over() for owner in OWNERS))

        freed = [run.run_id for orphans in self.wait(race()) for run in orphans.freed]
        assert sorted(freed) == sorted(expected), "each orphan is freed, by one"
        for run_id in freed:
            self.model.runs[run_id].given_up()

    @rule(held=any_claim)
    def release(self, held: Held) -> None:
        run = self.model.runs[held.run_id]
        self.wait(self.store("anna").release(self.record(held)))
        if run.honours(held):
            run.given_up()

    # Writing under a claim, effective or not

    @rule(held=any_claim)
    def step(self, held: Held) -> None:
        run = self.model.runs[held.run_id]
        assert self.wait(self.write(held)) == run.honours(held), "only the effective owner may write, and it always may"
        if run.honours(held):
            run.events += 1
            run.decisions += 1

    @rule(held=any_claim, owner=owners)
    def race_step_against_takeover(self, held: Held, owner: str) -> None:
        run = self.model.runs[held.run_id]
        for name, alias in self.names.items():
            if run.owner == alias:
                self.let_lapse(name)
        expected = self.model.orphans(self.names[owner])

        async def race() -> tuple[bool, Any]:
            return await asyncio.gather(self.write(held), self.upkeep(owner).take_over())

        wrote, orphans = self.wait(race())
        assert not wrote or run.honours(held)
        freed = {orphan.run_id for orphan in orphans.freed}
        assert wrote or not run.honours(held) or held.run_id in freed, "a write was lost to nobody"
        run.events += wrote
        run.decisions += wrote
        # One that is being written for may be passed over this time.
        assert freed - {held.run_id} == expected - {held.run_id}
        for run_id in freed:
            self.model.runs[run_id].given_up()

    @rule(held=any_claim)
    def end(self, held: Held) -> None:
        self.leave(held, self.store("anna").end(self.record(held), Ending(RunState.SUCCEEDED)), SUCCEEDED)

    @rule(held=any_claim)
    def await_input(self, held: Held) -> None:
        run = self.model.runs[held.run_id]
        asked = InputRequest(f"question-{run.events}", "What now?", (), datetime.now(UTC) + timedelta(days=1))
        state = CANCELLED if run.cancel_requested else AWAITING_INPUT
        if self.leave(held, self.store("anna").await_input(self.record(held), asked), state):
            run.question, run.answered = asked.input_request_id, False

    # What callers and time do

    @rule(run_id=any_run)
    def cancel(self, run_id: str) -> None:
        run = self.model.runs[run_id]
        try:
            self.wait(self.store("boris").cancel(run_id, CALLER))
            assert run.state not in (SUCCEEDED, NEEDS_REVIEW)
        except RunEnded:
            assert run.state in (SUCCEEDED, NEEDS_REVIEW)
        run.cancel_requested |= run.state == RUNNING
        if run.state in (PENDING, AWAITING_INPUT):
            run.left(CANCELLED)

    @rule(held=any_claim)
    def answer(self, held: Held) -> None:
        run = self.model.runs[held.run_id]
        try:
            given = Answer(held.run_id, run.question or "none", "yes")
            self.wait(self.questions().answer(CALLER, given))
            assert run.answer_is_taken()
        except (StaleAnswer, QuestionExpired, QuestionNotFound):
            assert not run.answer_is_taken()
        if run.state == AWAITING_INPUT:
            run.freed()
            run.events += 1
            run.answered = True

    @rule(held=any_claim)
    def expire_question(self, held: Held) -> None:
        run = self.model.runs[held.run_id]
        self._admin.execute(
            "UPDATE platform.runs SET expires_at = now() - interval '1 s' "
            "WHERE run_id = %s AND state = 'AWAITING_INPUT'",
            [held.run_id],
        )
        assert self.wait(self.upkeep("boris").expire_questions()) == [], "no graph decides what no answer means"
        if run.state == AWAITING_INPUT:
            run.left(NEEDS_REVIEW)

    @invariant()
    def the_tables_agree_with_the_model(self) -> None:
        found = {row[0]: row[1:] for row in self._admin.execute(_BOOKS).fetchall()}
        assert found.keys() == self.model.runs.keys()
        for run in self.model.runs.values():
            state, owner, epoch, events, decisions, event_numbers, decision_numbers = found[run.run_id]
            assert (state, owner, epoch) == (run.state, run.owner, run.epoch)
            assert (events, decisions) == (run.events, run.decisions)
            assert event_numbers == list(range(1, events + 1)), "a gap or a repeat in the events"
            assert decision_numbers == list(range(1, decisions + 1)), "a gap or a repeat in the ledger"

    def finish(self) -> None:
        """The living look after their own, everybody dies, and a newcomer takes over and ends every run."""
        for owner in OWNERS:
            self.renew(owner)
            self.look_after_own(owner)
            self.take_over(owner)
            self.crash(owner)
        self.take_over("anna")
        for run in self.model.runs.values():
            if run.state == AWAITING_INPUT:
                self.answer(Held(run.run_id, "", run.epoch))
        while claimed := self.wait(self.upkeep("anna").claim_pending(MANY, AGENTS)):
            for held in self.note_claims("anna", claimed):
                self.end(held)
        self.the_tables_agree_with_the_model()
        states = {run.state for run in self.model.runs.values()}
        assert states <= {SUCCEEDED, CANCELLED, NEEDS_REVIEW}, "a run was lost"


def test_no_interleaving_breaks_the_protocol(platform_dsn: str) -> None:
    run_state_machine_as_test(
        cast(type[RuleBasedStateMachine], lambda: LeaseProtocol(platform_dsn)),
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
