"""Every alert fires when what it is for really happens, and ceases when it is over; its windows are shortened."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import grpc
import pytest
import pytest_asyncio
from psycopg.conninfo import conninfo_to_dict
from signalbox.v1 import batches_pb2, data_chat_pb2, runs_pb2, threads_pb2, threads_pb2_grpc, tools_pb2, tools_pb2_grpc
from starlette.requests import Request
from starlette.responses import Response

from services.cli.batch_client import open_batches
from services.cli.client import Connection
from services.graph_executor.falkor import Falkor
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.keys import generate_keypair
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.telemetry.metrics_port import MetricsPort
from services.kit.telemetry.names import AUDIENCE_SQL_EXECUTOR
from services.kit.tools.executor import ToolRefused
from services.kit.wire.certificates import Certificates
from services.local.falkordb import FalkorServer, missing_for_falkordb
from services.mcp_executor.outage import FAILURES
from tests.chaos.deployment import Deployment, deployment, kill_and_start, until
from tests.chaos.script import script
from tests.chaos.test_clock_off import shifted
from tests.fixtures.alert_rules import rendered_rules
from tests.fixtures.certificates import Authority
from tests.fixtures.client import RunClient, question
from tests.fixtures.mcp_server import serving_tickets
from tests.fixtures.prometheus import Prometheus, needs_prometheus, prometheus
from tests.fixtures.scripted_model import Reply
from tests.fixtures.stack import AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL
from tests.integration.graph_executor.test_overdue import RUNAWAY
from tests.integration.mcp_executor.conftest import Executor, accepted, executing, write_servers

pytestmark = needs_prometheus
WINDOWS = {"moment": "1s", "short": "8s", "medium": "10s", "long": "12s", "day": "14s"}
# What these windows are too short for.
PATIENT = ("SignalboxReplicaRestarts",)
GOALS = {
    "latencyS": "1.0", "pendingAgeS": 2, "questionAgeS": 2, "retentionLagS": 3600, "batchStalledS": 3,
    "leastEvents": 2, "costPerHour": 0.001,
}  # fmt: skip
# What is deployed here.
DEPLOYED = {
    "serviceDefaults": {"replicas": 1},
    "services": {
        "runtime": {
            "replicas": 2,
            "targets": {"SIGNALBOX_CODE_EXECUTOR_TARGET": None, "SIGNALBOX_EVALUATOR_TARGET": None},
        },
        "code_executor": {"enabled": False},
        "evaluator": {"enabled": False},
    },
}
CAPACITY = 3
PRICE = {"input": 1000.0, "output": 1000.0}
RUNTIME = {
    "SIGNALBOX_MAX_CONCURRENT_RUNS": str(CAPACITY),
    "SIGNALBOX_MAX_PENDING_RUNS": "6",
    "SIGNALBOX_LEASE_S": "3",
    # A replica that nobody asks claims once in twenty sweeps: more often than the shortest window.
    "SIGNALBOX_SWEEP_INTERVAL_S": "0.2",
    "SIGNALBOX_RETENTION_INTERVAL_S": "1",
    "SIGNALBOX_RETENTION_BATCH": "1",
    "SIGNALBOX_DATABASE_POOL_SIZE": "4",
    "SIGNALBOX_MODEL_PRICES": json.dumps(dict.fromkeys((AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL), PRICE)),
}
# Longer than the latency goal, and shorter than anybody's patience.
SLOW_S = 2.5
LONG_AGO = "2 days"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def deployed() -> AsyncIterator[Deployment]:
    """A deployment of two replicas with little room."""
    async with deployment(replicas=2, service_env={"runtime": RUNTIME}, batches=True) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def monitor(deployed: Deployment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Prometheus]:
    """Prometheus with the chart's alerts, in a hurry."""
    hurried = rendered_rules(DEPLOYED, windows=WINDOWS, goals=GOALS)
    patient = rendered_rules(DEPLOYED, windows={**WINDOWS, "medium": "10m"}, goals=GOALS)
    rules = [rule for rule in hurried if rule["alert"] not in PATIENT]
    rules += [rule for rule in patient if rule["alert"] in PATIENT]
    targets = {service.name: service.ready.metrics for service in deployed.stack.services}
    async with prometheus(targets, tmp_path_factory.mktemp("prometheus"), rules) as running:
        yield running


@asynccontextmanager
async def caller(deployed: Deployment, subject: str = "27") -> AsyncIterator[RunClient]:
    """A client of the gateway."""
    async with grpc.aio.insecure_channel(deployed.stack.gateway_address) as channel:
        yield RunClient(channel, deployed.stack.token(subject))


@asynccontextmanager
async def asking(deployed: Deployment, *, concurrency: int = 2) -> AsyncIterator[None]:
    """Callers who ask one question after another inside the context, and take no for an answer."""

    async def ask_on(number: int) -> None:
        async with caller(deployed, str(27 + number)) as client:
            while True:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    async for _ in client.execute(question(f"Count {uuid4().hex}")):
                        pass
                await asyncio.sleep(0.05)

    callers = [asyncio.create_task(ask_on(number)) for number in range(concurrency)]
    try:
        yield
    finally:
        for each in callers:
            each.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        await all_ended(deployed)


async def all_ended(deployed: Deployment) -> None:
    """Waits until no run is under way."""

    async def none_left() -> bool:
        return not await deployed.rows("SELECT FROM platform.runs WHERE state IN ('PENDING', 'RUNNING')")

    await until(none_left, "every run to end", timeout_s=300)


async def execute(deployed: Deployment, statement: str, *parameters: str) -> None:
    """Does something to the platform's database."""
    async with deployed.database() as connection:
        await connection.execute(statement.encode(), parameters)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stops a process inside the context; it does not know."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_the_guards_model_is_away(deployed: Deployment, monitor: Prometheus) -> None:
    deployed.model.respond(GUARD_MODEL, lambda _: Reply.http_error(503))
    try:
        async with asking(deployed):
            await monitor.fires("SignalboxGuardGivesNoVerdict")
            await monitor.fires("SignalboxModelCallsFail", purpose="security_guard")
            await monitor.fires("SignalboxDependencyAway", dependency="guard")
            script(deployed.model)
        await monitor.quiet("SignalboxGuardGivesNoVerdict", "SignalboxModelCallsFail", "SignalboxDependencyAway")
    finally:
        script(deployed.model)


async def test_a_service_is_gone(deployed: Deployment, monitor: Prometheus) -> None:
    guard = deployed.stack.service("guard")
    assert await monitor.until('signalbox_build_info{service="guard"}')
    await guard.kill()
    fired = await monitor.fires("SignalboxServiceGone", service="guard")
    assert fired["annotations"]["runbook_url"].endswith("/SignalboxServiceGone.md")
    await guard.start()
    await monitor.quiet("SignalboxServiceGone")


async def test_a_service_was_never_seen(deployed: Deployment, tmp_path: Path) -> None:
    seen = {service.name: service.ready.metrics for service in deployed.stack.services if service.name != "guard"}
    rules = rendered_rules(DEPLOYED, windows=WINDOWS, goals=GOALS)
    async with prometheus(seen, tmp_path, rules) as running:
        # Before the first look at them, nobody has seen the others either.
        assert await running.until('count(ALERTS{alertname="SignalboxServiceGone",alertstate="firing"}) == 1')
        await running.fires("SignalboxServiceGone", service="guard")


async def test_a_replica_ends_and_starts_again_and_again(deployed: Deployment, monitor: Prometheus) -> None:
    guard = deployed.stack.service("guard")
    started = f'process_start_time_seconds{{instance="{guard.ready.metrics}"}}'
    for _ in range(3):
        [before] = await monitor.until(started)
        await kill_and_start(guard)
        assert await monitor.until(f"{started} > {before.value}")
    await monitor.fires("SignalboxReplicaRestarts", service="guard", instance=guard.ready.metrics)


async def test_runs_fail(deployed: Deployment, monitor: Prometheus) -> None:
    deployed.model.respond(AGENT_MODEL, lambda _: Reply.http_error(400))
    try:
        async with asking(deployed):
            await monitor.fires("SignalboxSuccessBurnsFast")
            await monitor.fires("SignalboxSuccessBurnsSlow")
            await monitor.fires("SignalboxRunsBringLittle", agent="data_chat")
            script(deployed.model)
            await monitor.quiet("SignalboxSuccessBurnsFast", "SignalboxSuccessBurnsSlow")
    finally:
        script(deployed.model)


async def test_more_is_asked_than_replicas_can_do(deployed: Deployment, monitor: Prometheus) -> None:
    script(deployed.model, thinking_s=SLOW_S)
    try:
        async with asking(deployed, concurrency=6 * CAPACITY):
            for name in (
                "SignalboxReplicasFull",
                "SignalboxRunsWaitForReplica",
                "SignalboxWorkRefused",
                "SignalboxLatencyBurnsFast",
                "SignalboxLatencyBurnsSlow",
                "SignalboxCostHigh",
            ):
                await monitor.fires(name)
            script(deployed.model)
        await monitor.quiet("SignalboxReplicasFull", "SignalboxRunsWaitForReplica", "SignalboxWorkRefused")
    finally:
        script(deployed.model)


def asking_for(text: str) -> runs_pb2.RunInput:
    """What an item asks."""
    return runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=text))


async def test_nothing_of_a_batch_ends(deployed: Deployment, monitor: Prometheus) -> None:
    script(deployed.model, thinking_s=4 * SLOW_S)
    connection = Connection(deployed.stack.gateway_address, deployed.stack.token("27"))
    asked = [batches_pb2.NewBatchItem(input=asking_for(f"Count {number} and {uuid4().hex}")) for number in range(4)]
    try:
        async with open_batches(connection) as batches:
            await batches.upload(asked)
            await monitor.fires("SignalboxBatchStalled")
            script(deployed.model)
            await monitor.quiet("SignalboxBatchStalled")
    finally:
        script(deployed.model)


async def test_a_replica_dies_and_its_runs_are_held_fast(deployed: Deployment, monitor: Prometheus) -> None:
    script(deployed.model, thinking_s=SLOW_S)
    replica = deployed.stack.runtimes[1]

    async def both_work() -> bool:
        return await deployed.metric("signalbox_runs_active", [replica]) > 0

    try:
        async with asking(deployed, concurrency=2 * CAPACITY), deployed.database() as stuck:
            await until(both_work, "the replica to have a run")
            await replica.kill()
            async with stuck.transaction():
                # A session that somebody forgot: what it holds, no sweep can free.
                await stuck.execute(_HELD_FAST)
                await monitor.fires("SignalboxRunsOrphaned")
            await monitor.fires("SignalboxRunsTakenOver")
            await monitor.fires("SignalboxReplicasMissing", service="runtime")
            await replica.start()
            script(deployed.model)
        await monitor.quiet("SignalboxRunsOrphaned", "SignalboxReplicasMissing")
    finally:
        script(deployed.model)


async def test_the_platforms_database_is_held_and_then_away(deployed: Deployment, monitor: Prometheus) -> None:
    async with asking(deployed, concurrency=2 * CAPACITY):
        async with deployed.database() as holder, holder.transaction():
            await holder.execute("LOCK TABLE platform.runs IN ACCESS EXCLUSIVE MODE")
            await monitor.fires("SignalboxConnectionsUsedUp")
        await monitor.quiet("SignalboxConnectionsUsedUp")
        await asyncio.to_thread(deployed.postgres.stop)
        try:
            for work in ("sweep", "liveness", "renew_leases"):
                await monitor.fires("SignalboxWorkStalled", work=work)
        finally:
            await asyncio.to_thread(deployed.postgres.start)
        await monitor.quiet("SignalboxWorkStalled")


async def test_what_is_left_lying(deployed: Deployment, monitor: Prometheus) -> None:
    """A question that nobody answers, runs of an agent that is no more, more to prune than is pruned, a lost table."""
    # What was refused a moment ago is refused until the replicas have counted again.
    assert await monitor.until("max(signalbox_runs_pending) == 0")
    async with caller(deployed) as client:
        asked = [await client.ask(f"Count {uuid4().hex}") for _ in range(2)]
    forsaken, unanswered = (each.run.run_id for each in asked)
    await execute(deployed, _NOT_CARRIED, forsaken)
    await execute(deployed, _POOL_GONE)
    await execute(deployed, _ASKING, unanswered)
    await execute(deployed, _MANY_OLD, LONG_AGO, forsaken)
    await monitor.fires("SignalboxRunsNotCarried", agent="retired_agent")
    await monitor.fires("SignalboxPoolAway", pool="gone")
    await monitor.fires("SignalboxQuestionsUnanswered", agent="data_chat")
    await monitor.fires("SignalboxRetentionBehind")
    await execute(deployed, "DELETE FROM platform.runs WHERE agent LIKE '%%_agent' OR state = 'AWAITING_INPUT'")
    await execute(deployed, "DELETE FROM platform.agents WHERE pool = 'gone'")
    await monitor.quiet("SignalboxRunsNotCarried", "SignalboxPoolAway", "SignalboxQuestionsUnanswered")
    await monitor.quiet("SignalboxRetentionBehind")


_HELD_FAST = "SELECT FROM platform.runs WHERE state = 'RUNNING' FOR UPDATE SKIP LOCKED"
_NOT_CARRIED = """
    UPDATE platform.runs SET state = 'PENDING', agent = 'retired_agent', graph_version = 'gone', ended_at = NULL
    WHERE run_id = %s
"""
_POOL_GONE = """
    INSERT INTO platform.agents (name, graph_version, pool, listed, outline, seen_at)
    VALUES ('retired_agent', 'gone', 'gone', '', '', now() - interval '1 h')
"""
_ASKING = """
    UPDATE platform.runs SET state = 'AWAITING_INPUT', ended_at = NULL, input_request = jsonb_build_object(
        'input_request_id', 'q', 'question', 'Which?', 'options', '[]'::jsonb, 'expires_at', now() + interval '7 days')
    WHERE run_id = %s
"""
# More than a pruner gets through in a minute, one in a batch.
_MANY_OLD = """
    INSERT INTO platform.runs
        (run_id, agent, graph_version, subject, roles, correlation_id, state, input, budget, ended_at)
    SELECT gen_random_uuid(), 'old_agent', graph_version, subject, roles, correlation_id, 'SUCCEEDED', input, budget,
        now() - %s::interval
    FROM platform.runs, generate_series(1, 1500) WHERE run_id = %s
"""


async def test_a_fault_of_ours(deployed: Deployment, monitor: Prometheus) -> None:
    async with grpc.aio.insecure_channel(deployed.stack.gateway_address) as channel:
        threads = threads_pb2_grpc.ThreadServiceStub(channel)
        metadata = (bearer_metadata(deployed.stack.token("27")),)
        await threads.ListThreads(threads_pb2.ListThreadsRequest(), metadata=metadata)
        await execute(deployed, "ALTER TABLE platform.threads RENAME TO mislaid")
        try:
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await threads.ListThreads(threads_pb2.ListThreadsRequest(), metadata=metadata)
            assert failed.value.code() is grpc.StatusCode.INTERNAL
            await monitor.fires("SignalboxInternalErrors", method="/signalbox.v1.ThreadService/ListThreads")
        finally:
            await execute(deployed, "ALTER TABLE platform.mislaid RENAME TO threads")


async def test_a_query_can_not_be_stopped(deployed: Deployment, monitor: Prometheus) -> None:
    claims = RunClaims(Caller("27", frozenset()), str(uuid4()), "data_chat", frozenset({"execute_db_query"}), 1)
    keys = deployed.stack.keys.runs
    token = RunTokenMinter(keys.private.read_text()).mint(claims, AUDIENCE_SQL_EXECUTOR)
    request = tools_pb2.CallToolRequest(
        tool="execute_db_query",
        idempotency_key=tools_pb2.IdempotencyKey(run_id=claims.run_id, checkpoint_id="1", tool_call_id="1"),
        epoch=1,
    )
    request.arguments.update({"query": "SELECT count(*) FROM device_readings a, device_readings b, device_readings c"})
    # Not the platform's, which is looked at.
    asked = str(conninfo_to_dict(deployed.stack.databases.world_dsn)["dbname"])
    pids: list[int] = []

    async def runs() -> bool:
        assert not call.done(), call.result()
        # What the reader does is hidden, but not that it reads a table.
        found = await deployed.rows(
            "SELECT DISTINCT l.pid FROM pg_stat_activity AS a JOIN pg_locks AS l USING (pid)"
            " WHERE a.application_name = 'signalbox sql_executor' AND a.datname = %s AND l.locktype = 'relation'",
            asked,
        )
        pids.extend(pid for (pid,) in found)
        return bool(found)

    async with grpc.aio.insecure_channel(deployed.stack.service("sql_executor").ready.listen) as channel:
        executor = tools_pb2_grpc.ToolExecutorServiceStub(channel)
        call = asyncio.ensure_future(executor.CallTool(request, metadata=(bearer_metadata(token),), timeout=120))
        await until(runs, "the query to run")
        with frozen(pids[0]):
            await monitor.fires("SignalboxQueriesOverdue")
        with contextlib.suppress(grpc.aio.AioRpcError):
            await call
    await monitor.quiet("SignalboxQueriesOverdue")


async def test_a_clock_is_off_and_a_replica_stalls(deployed: Deployment, monitor: Prometheus) -> None:
    first, second = deployed.stack.runtimes
    async with shifted(deployed, second, 4.0) as off:
        assert await monitor.until(f'abs(signalbox_clock_skew_seconds{{instance="{off.ready.metrics}"}}) > 3')
        await monitor.fires("SignalboxClockOff", instance=off.ready.metrics)
        await stall(first.pid, lambda: fired(monitor, "SignalboxEventLoopLags", first.ready.metrics))
    await monitor.quiet("SignalboxClockOff", "SignalboxEventLoopLags")


@asynccontextmanager
async def a_graph() -> AsyncIterator[Falkor]:
    """A server that the executor does not end when it is overdue: nobody would start it again."""
    with TemporaryDirectory(prefix="graph-") as directory:
        server = FalkorServer(Path(directory))
        await server.start()
        falkor = Falkor(server.url, ca=None, connections=2, wait_s=5, timeout_ms=300)
        try:
            yield falkor
        finally:
            await falkor.aclose()
            await server.kill()


@pytest.mark.skipif(bool(missing_for_falkordb()), reason=missing_for_falkordb())
async def test_a_query_in_the_graph_runs_on_and_a_certificate_runs_out(tmp_path: Path) -> None:
    """Both in this process, whose metrics Prometheus finds as it finds a service's."""
    port = MetricsPort("127.0.0.1:0")
    rules = rendered_rules(windows=WINDOWS)
    try:
        certificate = Authority(tmp_path).issue("graph_executor")  # good for an hour
        Certificates(certificate.cert, certificate.key, certificate.ca).current()
        async with prometheus({"graph-executor": port.address}, tmp_path, rules) as running, a_graph() as falkor:
            await running.fires("SignalboxCertificateExpires", instance=port.address)
            await falkor.query("g", "CREATE (:Ticket)", {})
            with pytest.raises(ToolRefused, match="could not be stopped"):
                await falkor.read_for_caller("g", RUNAWAY, {})
            await running.fires("SignalboxGraphQueriesOverdue")
            await running.quiet("SignalboxGraphQueriesOverdue")
    finally:
        await port.begin_close()


async def test_a_server_of_tools_is_away(tmp_path: Path) -> None:
    keys, port = generate_keypair(), MetricsPort("127.0.0.1:0")

    async def away(_: Request) -> Response:
        return Response(status_code=503)

    async def called(executor: Executor) -> bool:
        try:
            return bool(await executor.call("tickets_search", words="login"))
        except grpc.aio.AioRpcError:
            return False

    try:
        async with (
            serving_tickets() as tickets,
            prometheus({"mcp-executor": port.address}, tmp_path, rendered_rules(windows=WINDOWS)) as running,
        ):
            file = write_servers(tmp_path, url=tickets.url)
            assert await accepted(file) == 0
            async with executing(file, keys) as executor:
                tickets.instead = away
                assert not any([await called(executor) for _ in range(FAILURES)])
                await running.fires("SignalboxMcpServerAway", server="tickets")
                tickets.instead = None
                await until(lambda: called(executor), "the server to be asked again")
                await running.quiet("SignalboxMcpServerAway")
    finally:
        await port.begin_close()


async def fired(monitor: Prometheus, name: str, instance: str) -> bool:
    """Whether an alert fires for a replica now."""
    return any(
        a["labels"].get("instance") == instance for a in await monitor.firing() if a["labels"]["alertname"] == name
    )


async def stall(pid: int, long_enough: Callable[[], Awaitable[bool]]) -> None:
    """Gives a process too little CPU until a condition holds.

    An idle replica's timer comes a second after the last: every other one in a pause, 0.4 s before its end. Between
    pauses is time enough for Prometheus to be answered, which gives up after a second.
    """
    async with asyncio.timeout(120):
        while not await long_enough():
            with frozen(pid):
                await asyncio.sleep(0.8)
            await asyncio.sleep(1.6)
