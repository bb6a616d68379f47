"""Model, evaluator and code executor go away in the middle of a batch, and no finding fails of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import AsyncConnectionPool
from signalbox.v1 import runs_pb2, sast_pb2

from services.code_executor import server as code_executor
from services.code_executor.settings import CodeExecutorSettings
from services.evaluator import server as evaluator
from services.evaluator.settings import EvaluatorSettings
from services.findings.investigation.items import investigation_input
from services.kit.wire.server import running
from tests.fixtures.client import watched
from tests.fixtures.ports import reserved_port
from tests.fixtures.scripted_model import Reply, ScriptedModel
from tests.integration.code_agents.conftest import GIVEN_UP, TAINTED, Bench, MakeBench, critique, draft

READ = Reply.tool_call("read_file", {"path": "app/db.py"})
READ_CALLER = Reply.tool_call("read_file", {"path": "app/web.py"})
ENOUGH = Reply.text("That is all that is needed.")
FINDINGS = 12
AT_ONCE = 4


async def judged(bench: Bench, number: int, places: asyncio.Semaphore) -> runs_pb2.Run:
    """Has a finding of its own investigated, once there is a place; returns the run as it ended."""
    async with places:
        asked = investigation_input(_numbered(bench.finding, number), bench.source)
        made = await bench.stub.CreateRun(runs_pb2.CreateRunRequest(input=asked), metadata=bench.auth, timeout=GIVEN_UP)
        async for event in watched(bench.stub, bench.auth, made.run.run_id, timeout_s=GIVEN_UP):
            if event.HasField("run_ended"):
                return event.run_ended.run
    raise AssertionError("the stream ended before the run did")


class Part:
    """A service that can go away and come back to its address."""

    def __init__(self, begin: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._begin = begin
        self._running: AbstractAsyncContextManager[Any] | None = None

    async def start(self) -> None:
        self._running = self._begin()
        await self._running.__aenter__()

    async def stop(self) -> None:
        if self._running is not None:
            await self._running.__aexit__(None, None, None)
            self._running = None


@asynccontextmanager
async def away(model: ScriptedModel) -> AsyncIterator[None]:
    """Closes a model server's port, so that connections are refused."""
    await model.__aexit__(None, None, None)
    try:
        yield
    finally:
        await model.__aenter__()


async def until_one_waits_for(dependency: str, pool: AsyncConnectionPool[Any]) -> None:
    async with asyncio.timeout(GIVEN_UP):
        while True:
            async with pool.connection() as connection:
                cursor = await connection.execute(
                    "SELECT 1 FROM platform.runs WHERE state = 'PENDING' AND waiting_for LIKE %s", [f"{dependency}%"]
                )
                if await cursor.fetchone() is not None:
                    return
            await asyncio.sleep(0.02)


def replies(bench: Bench) -> None:
    """Lets every finding be read, drafted and approved."""
    bench.model.respond("research", lambda request: ENOUGH if "new_lines" in str(request.messages) else READ)
    bench.model.respond("analysis", lambda _: draft("TRUE_POSITIVE", TAINTED))
    bench.model.respond("judge", lambda _: critique("approved"))


async def test_an_outage_in_the_middle_of_a_batch_fails_no_finding(
    make_bench: MakeBench, tmp_path: Path, platform_pool: AsyncConnectionPool[Any]
) -> None:
    places = asyncio.Semaphore(AT_ONCE)
    async with make_bench() as bench:
        replies(bench)
        with reserved_port() as port:
            settings = EvaluatorSettings(
                listen=f"127.0.0.1:{port}",
                run_token_public_key_file=tmp_path / "run.pub",
                evaluator_model="judge",
                model_base_url=bench.model.base_url,
                model_retries=0,
            )
            judge = Part(lambda: running("evaluator", settings, evaluator.build))
            await judge.start()
            bench.settings = bench.settings.model_copy(update={"evaluator_target": f"ipv4:127.0.0.1:{port}"})
            async with bench.runtime():
                judging = [asyncio.create_task(judged(bench, number, places)) for number in range(FINDINGS)]
                await asyncio.wait(judging, return_when=asyncio.FIRST_COMPLETED)
                async with away(bench.model):
                    await until_one_waits_for("model", platform_pool)
                    await judge.stop()
                await until_one_waits_for("evaluator", platform_pool)
                await judge.start()
                async with asyncio.timeout(GIVEN_UP):
                    ended = await asyncio.gather(*judging)
            await judge.stop()
    assert len({run.run_id for run in ended}) == FINDINGS
    for run in ended:
        assert (run.error, run.output.sast_investigation.verdict) == ("", sast_pb2.VERDICT_TRUE_POSITIVE)


async def test_a_tool_that_is_away_in_the_middle_of_research_is_waited_for(
    make_bench: MakeBench, tmp_path: Path, platform_pool: AsyncConnectionPool[Any]
) -> None:
    gate = asyncio.Event()
    async with make_bench() as bench:
        bench.model.script("research", [READ, READ_CALLER.after(gate), ENOUGH])
        bench.model.script("analysis", [draft("TRUE_POSITIVE", TAINTED)])
        bench.model.script("judge", [critique("approved")])
        with reserved_port() as port:
            settings = CodeExecutorSettings(
                listen=f"127.0.0.1:{port}",
                run_token_public_key_file=tmp_path / "run.pub",
                code_local_roots=(tmp_path / "repositories",),
                code_cache_dir=tmp_path / "other-cache",
            )
            executor = Part(lambda: running("code_executor", settings, code_executor.build))
            await executor.start()
            bench.settings = bench.settings.model_copy(update={"code_executor_target": f"ipv4:127.0.0.1:{port}"})
            async with bench.runtime():
                run_id = await bench.create("sast_investigation")
                await bench.model.wait_for_requests(2, model="research")
                await executor.stop()
                gate.set()
                await until_one_waits_for("code_executor", platform_pool)
                await executor.start()
                ended = await bench.watch(run_id)
            await executor.stop()
    assert (ended.state, ended.verdict, ended.rules) == ("SUCCEEDED", "TRUE_POSITIVE", ["approved"])
    # What was done before is neither done nor charged again, and no model heard of the outage.
    assert [kind for node, kind, _, _ in ended.calls if node == "research" and kind != "wait"] == (
        ["model", "tool", "model", "tool", "model"]
    )
    assert [name for _, kind, name, _ in ended.calls if kind == "wait"] == ["code_executor"]
    assert (ended.run.spend.model_calls, ended.run.spend.tool_calls) == (5, 2)
    assert not any("away" in str(request.messages) for request in bench.model.requests)


@pytest.mark.parametrize("in_the_middle", [True, False])
async def test_an_evaluator_that_is_replaced_costs_no_finding(
    make_bench: MakeBench, tmp_path: Path, platform_pool: AsyncConnectionPool[Any], *, in_the_middle: bool
) -> None:
    gate = asyncio.Event()
    async with make_bench() as bench:
        bench.model.script("research", [READ, ENOUGH])
        drafted = draft("TRUE_POSITIVE", TAINTED)
        bench.model.script("analysis", [drafted if in_the_middle else drafted.after(gate)])
        judged = critique("approved")
        bench.model.script("judge", [judged.after(gate), judged] if in_the_middle else [judged])
        with reserved_port() as port:
            settings = EvaluatorSettings(
                listen=f"127.0.0.1:{port}",
                run_token_public_key_file=tmp_path / "run.pub",
                evaluator_model="judge",
                model_base_url=bench.model.base_url,
                shutdown_grace_s=0.2,
            )
            judge = Part(lambda: running("evaluator", settings, evaluator.build))
            await judge.start()
            bench.settings = bench.settings.model_copy(update={"evaluator_target": f"ipv4:127.0.0.1:{port}"})
            async with bench.runtime():
                run_id = await bench.create("sast_investigation")
                await bench.model.wait_for_requests(1, model="judge" if in_the_middle else "analysis")
                await judge.stop()
                gate.set()
                await until_one_waits_for("evaluator", platform_pool)
                await judge.start()
                ended = await bench.watch(run_id)
            await judge.stop()
    assert (ended.state, ended.verdict, ended.rules) == ("SUCCEEDED", "TRUE_POSITIVE", ["approved"])
    assert [name for _, kind, name, _ in ended.calls if kind == "wait"] == ["evaluator"]


async def test_what_the_judge_was_paid_before_its_model_went_away_is_charged(bench: Bench) -> None:
    replies(bench)
    unreadable, away = Reply.text("I think it is fine.", usage=(10_000, 500)), Reply.http_error(503)
    bench.model.script("judge", [unreadable, away, unreadable, away, critique("approved")])
    ended = await bench.investigate()
    assert (ended.state, ended.verdict) == ("SUCCEEDED", "TRUE_POSITIVE")
    assert len(bench.model.requests_of("judge")) == 5
    assert ended.run.spend.token_usage.total_tokens == 2 * 10_500 + 4 * 15
    # Two readings, a draft, and the three answers of the judge; calls that nobody answered are not among them.
    assert ended.run.spend.model_calls == 6
    assert [outcome for _, kind, name, outcome in ended.calls if (kind, name) == ("model", "judge")] == (
        ["http_503", "http_503", "ok"]
    )


@pytest.mark.parametrize("agent", ["sast_triage", "sast_investigation"])
async def test_a_code_executor_that_is_away_is_told_to_no_model(make_bench: MakeBench, agent: str) -> None:
    """What the model never hears of can't become part of its answer."""
    async with make_bench() as bench:
        settings = bench.settings
        bench.settings = settings.model_copy(update={"code_executor_target": "ipv4:127.0.0.1:1"})
        async with bench.runtime():
            # A try takes gRPC about a second; the last one may be cut short.
            run_id = await bench.create(agent, wall_time_s=4)
            ended = await bench.watch(run_id)
    assert (ended.state, ended.rules) == ("FAILED", ["node_failed"])
    assert "the code_executor is away (UNAVAILABLE)" in ended.run.error
    assert bench.model.requests == []


@pytest.mark.parametrize(
    ("status", "said", "told"),
    [
        (401, "Incorrect API key provided: sk-1234567890 now", "Incorrect API key provided: [hidden] now"),
        (404, "The model 'research' does not exist.", "The model 'research' does not exist."),
        (400, "The maximum context length is 8192.\x00", "The maximum context length is 8192."),
        (400, '"auto" tool choice is not supported', '"auto" tool choice is not supported'),
    ],
)
async def test_what_a_model_says_no_to_is_told_and_not_waited_for(
    bench: Bench, status: int, said: str, told: str
) -> None:
    bench.model.script("research", [Reply.http_error(status, said)] * 2)
    ended = await bench.investigate()
    assert (ended.state, ended.rules) == ("FAILED", ["node_failed"])
    assert ended.run.error == f"the model 'research' refused the request (http_{status}): {told}"
    # For a context that is too short it is tried with less, once.
    assert len(bench.model.requests_of("research")) == (2 if "maximum context" in said else 1)
    assert "wait" not in [kind for _, kind, _, _ in ended.calls]


async def test_what_the_evaluators_model_says_no_to_is_told_too(bench: Bench) -> None:
    replies(bench)
    bench.model.script("judge", [Reply.http_error(403, "judge is not for you, sk-1234567890")])
    ended = await bench.investigate()
    assert (ended.state, ended.rules) == ("FAILED", ["node_failed"])
    assert "the evaluator could not judge the verdict (MODEL_UNUSABLE)" in ended.run.error
    assert "judge is not for you, [hidden]" in ended.run.error
    assert "wait" not in [kind for _, kind, _, _ in ended.calls]


def _numbered(finding: sast_pb2.Finding, number: int) -> sast_pb2.Finding:
    made = sast_pb2.Finding()
    made.CopyFrom(finding)
    made.fingerprint = f"f-{number}"
    return made
