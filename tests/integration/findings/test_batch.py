"""Batches of findings: each result exactly once, whatever happens to the platform or to the command."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from signalbox.v1 import runs_pb2, sast_pb2

from services.cli.batch_gateway import BatchGateway
from services.cli.client import open_gateway
from services.cli.errors import from_findings
from services.cli.exit_codes import ExitCode
from services.cli.investigation import investigation_input
from services.findings.errors import CallFailed
from services.findings.investigation.batch import Batch, BatchPolicy, request_id
from services.findings.sarif.outcome import Verdict
from services.gateway.quota import Quota, Quotas
from tests.integration.findings.conftest import Recorder, Serving, findings, serving
from tests.integration.findings.fake_platform import FakePlatform, Forbidden, bad_request, succeed

SOURCE = sast_pb2.CodeSource(repository="/srv/repo", commit="a" * 40)
BY_LINE = [Verdict.TRUE_POSITIVE, Verdict.FALSE_POSITIVE, Verdict.NEEDS_REVIEW]


def batch(at: Serving, progress: Recorder, **policy: Any) -> Batch:
    fast = {"first_backoff_s": 0.001, "max_backoff_s": 0.01, "max_failures": 50}
    return Batch(BatchGateway(at.gateway), SOURCE, BatchPolicy(**{**fast, **policy}), progress, investigation_input)


def failing(state: runs_pb2.RunState) -> Any:
    """Lets the first run of each finding end badly, and the next well."""

    def ending(finding: sast_pb2.Finding, attempt: int) -> runs_pb2.Run:
        return succeed(finding, attempt) if attempt else runs_pb2.Run(state=state, error="the model went away")

    return ending


def _setting(event: asyncio.Event, count: int) -> Callable[[int], None]:
    return lambda done: event.set() if done >= count else None


async def test_five_hundred_findings_on_a_troubled_platform() -> None:
    wanted = findings(500)
    progress = Recorder()
    async with serving(FakePlatform(trouble=0.2)) as at:
        outcomes = await batch(at, progress, concurrency=16).run(wanted)
    assert Counter(progress.finished) == Counter(finding.fingerprint for finding in wanted)
    assert outcomes.keys() == {finding.fingerprint for finding in wanted}
    for finding in wanted:
        outcome = outcomes[finding.fingerprint]
        assert outcome.justification == finding.fingerprint
        assert outcome.verdict is BY_LINE[finding.location.first_line % 3]
        assert not outcome.error
    assert set(at.platform.started.values()) == {1}
    [traceparent] = at.platform.traceparents
    assert re.fullmatch(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01", traceparent)


async def test_each_batch_has_a_trace_that_its_runs_are_linked_to() -> None:
    async with serving(FakePlatform()) as at:
        for _ in range(2):
            await batch(at, Recorder()).run(findings(3))
    assert len(at.platform.traceparents) == 2
    assert at.platform.most_at_once <= 16


async def test_killed_and_started_again() -> None:
    wanted = findings(500)
    enough = asyncio.Event()
    async with serving(FakePlatform(trouble=0.1)) as at:
        for stop_after in (50, 200, 350):
            enough.clear()
            task = asyncio.create_task(batch(at, Recorder(_setting(enough, stop_after))).run(wanted))
            await asyncio.wait_for(enough.wait(), 60)
            task.cancel()  # as a kill does: nobody cancels the runs
            with pytest.raises(asyncio.CancelledError):
                await task
        outcomes = await batch(at, Recorder()).run(wanted)
    assert {fingerprint: outcome.justification for fingerprint, outcome in outcomes.items()} == {
        finding.fingerprint: finding.fingerprint for finding in wanted
    }
    assert set(at.platform.started.values()) == {1}


async def test_the_same_command_finds_what_there_is() -> None:
    async with serving(FakePlatform()) as at:
        first = await batch(at, Recorder()).run(findings(20))
        assert await batch(at, Recorder()).run(findings(20)) == first
        assert set(at.platform.started.values()) == {1}
        await batch(at, Recorder(), label="again").run(findings(20))
        assert set(at.platform.started.values()) == {2}


async def test_failed_runs_are_run_again_only_when_asked_to() -> None:
    async with serving(FakePlatform()) as at:
        at.platform.ending = failing(runs_pb2.RUN_STATE_FAILED)
        for _ in range(2):
            outcomes = await batch(at, Recorder()).run(findings(5))
            assert {outcome.error for outcome in outcomes.values()} == {"the model went away"}
            assert {outcome.verdict for outcome in outcomes.values()} == {Verdict.NEEDS_REVIEW}
        assert set(at.platform.started.values()) == {1}
        for _ in range(2):
            outcomes = await batch(at, Recorder(), rerun_failed=True).run(findings(5))
            assert {outcome.error for outcome in outcomes.values()} == {""}
        assert set(at.platform.started.values()) == {2}


async def test_needs_review_is_a_result() -> None:
    async with serving(FakePlatform()) as at:
        at.platform.ending = lambda *_: runs_pb2.Run(
            state=runs_pb2.RUN_STATE_NEEDS_REVIEW,
            stop_reason="rejection_streak",
            output=runs_pb2.RunOutput(
                sast_investigation=sast_pb2.SastInvestigationOutput(verdict=sast_pb2.VERDICT_NEEDS_REVIEW)
            ),
        )
        outcome = (await batch(at, Recorder(), rerun_failed=True).run(findings(1)))["f0"]
    assert (outcome.verdict, outcome.stop_reason, outcome.error) == (Verdict.NEEDS_REVIEW, "rejection_streak", "")


async def interrupt(task: asyncio.Task[Any]) -> None:
    """Cancels what a command does, as Ctrl-C does."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_interrupt_cancels_what_runs_and_no_more() -> None:
    async with serving(FakePlatform()) as at:
        done = await batch(at, Recorder()).run(findings(3))
        at.platform.gate.clear()
        work = batch(at, Recorder(), concurrency=4)
        task = asyncio.create_task(work.run(findings(20)))
        await at.platform.wait_for_watchers(4)
        await interrupt(task)
        assert await work.cancel_active() == 4
        assert len(at.platform.cancelled) == 4
        assert not at.platform.cancelled & {outcome.run_id for outcome in done.values()}
        at.platform.gate.set()
        outcomes = await batch(at, Recorder()).run(findings(20))
    assert {outcome.error for outcome in outcomes.values()} == {""}
    assert Counter(at.platform.started.values()) == {1: 16, 2: 4}


async def test_an_interrupt_leaves_the_runs_of_another_command_alone() -> None:
    async with serving(FakePlatform()) as at:
        at.platform.gate.clear()
        first, second = batch(at, Recorder()), batch(at, Recorder())
        going_on = asyncio.create_task(first.run(findings(3)))
        await at.platform.wait_for_watchers(3)
        task = asyncio.create_task(second.run(findings(5)))
        await at.platform.wait_for_watchers(8)
        await interrupt(task)
        assert await second.cancel_active() == 2
        at.platform.gate.set()
        outcomes = await going_on
    assert {outcome.error for outcome in outcomes.values()} == {""}
    assert not at.platform.cancelled & {outcome.run_id for outcome in outcomes.values()}


async def test_what_another_command_cancelled_is_missing_again() -> None:
    async with serving(FakePlatform()) as at:
        at.platform.gate.clear()
        first = batch(at, Recorder())
        task = asyncio.create_task(first.run(findings(3)))
        await at.platform.wait_for_watchers(3)
        going_on = asyncio.create_task(batch(at, Recorder()).run(findings(3)))
        await at.platform.wait_for_watchers(6)
        await interrupt(task)
        assert await first.cancel_active() == 3
        at.platform.gate.set()
        outcomes = await going_on
    assert {outcome.error for outcome in outcomes.values()} == {""}
    assert set(at.platform.started.values()) == {2}


async def test_a_run_whose_answer_got_lost_is_cancelled_too() -> None:
    async with serving(FakePlatform(trouble=0.3)) as at:
        at.platform.gate.clear()
        work = batch(at, Recorder(), concurrency=20)
        task = asyncio.create_task(work.run(findings(20)))
        await at.platform.wait_for_watchers(20)
        await interrupt(task)
        assert await work.cancel_active() == 20
    assert len(at.platform.cancelled) == 20


async def test_what_one_finding_gets_wrong_is_its_own() -> None:
    wanted = findings(4)
    wanted[1].rule_id = "bad"
    async with serving(FakePlatform()) as at:
        at.platform.refuse, at.platform.refuse_rule = bad_request(), "bad"
        outcomes = await batch(at, Recorder()).run(wanted)
    assert [bool(outcomes[finding.fingerprint].error) for finding in wanted] == [False, True, False, False]
    assert "too long" in outcomes["f1"].error


async def test_a_refused_caller_ends_the_batch_at_once() -> None:
    async with serving(FakePlatform()) as at:
        at.platform.refuse = Forbidden("not for you")
        with pytest.raises(CallFailed) as raised:
            await batch(at, Recorder()).run(findings(10))
    assert from_findings(raised.value).code is ExitCode.REFUSED
    assert "continues where it stopped" in raised.value.hint


def _from_the_first_refusal_on(platform: FakePlatform) -> Callable[[], float]:
    """A clock that stands until somebody was refused: on a slow machine calls would not be too many otherwise."""
    begun: list[float] = []

    def clock() -> float:
        if not platform.refused:
            return 0.0
        begun[:] = begun or [time.monotonic()]
        return time.monotonic() - begun[0]

    return clock


async def test_a_platform_that_asks_for_patience_is_given_it() -> None:
    async with serving(FakePlatform()) as at:
        quota = Quota(requests_per_minute=6000, burst=20, concurrent_streams=256)
        at.platform.quota = Quotas(quota, clock=_from_the_first_refusal_on(at.platform))
        policy = BatchPolicy(concurrency=32)
        outcomes = await Batch(BatchGateway(at.gateway), SOURCE, policy, Recorder(), investigation_input).run(
            findings(120)
        )
    assert at.platform.refused
    assert {outcome.error for outcome in outcomes.values()} == {""}
    assert len(outcomes) == 120


async def test_a_platform_that_is_gone_ends_the_batch() -> None:
    async with serving(FakePlatform()) as at:
        connection = at.connection
    async with open_gateway(connection) as gateway:
        gone = Serving(at.platform, connection, gateway)
        with pytest.raises(CallFailed) as raised:
            await batch(gone, Recorder(), max_failures=3).run(findings(10))
    assert from_findings(raised.value).code is ExitCode.UNREACHABLE


async def test_no_findings() -> None:
    async with serving(FakePlatform()) as at:
        assert await batch(at, Recorder()).run([]) == {}


def test_request_ids() -> None:
    one, other = findings(2)
    ids = {
        request_id(source, finding, label=label, attempt=attempt)
        for source in (SOURCE, sast_pb2.CodeSource(repository="/srv/repo", commit="b" * 40))
        for finding in (one, other)
        for label in ("", "again")
        for attempt in (0, 1)
    }
    assert len(ids) == 16
    assert all(len(each) <= 128 and each.isascii() and each.isprintable() for each in ids)
    assert request_id(SOURCE, one, label="", attempt=0) in ids
