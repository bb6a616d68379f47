"""The agent `incident_investigation` on real parts: runtime, guard, all three executors, Postgres, FalkorDB, git."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import psycopg
import pytest
import pytest_asyncio
from google.protobuf import timestamp_pb2
from signalbox.v1 import caller_pb2, incident_investigation_pb2, runs_pb2, runs_pb2_grpc, sast_pb2

from examples.harbour.incidents import graph as incident_graph
from examples.harbour.incidents import repository as incident_repository
from examples.harbour.incidents.tables import make_tables
from examples.harbour.incidents.world import CASES, Case, ServiceWorld
from services.code_executor import server as code_executor
from services.code_executor.settings import CodeExecutorSettings
from services.evaluator import server as evaluator
from services.evaluator.settings import EvaluatorSettings
from services.graph_executor import server as graph_executor
from services.graph_executor.settings import GraphExecutorSettings
from services.guard import server as guard
from services.guard.settings import GuardSettings
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller
from services.kit.identity.caller_tokens import CallerTokenMinter
from services.kit.identity.keys import KeyPair, generate_keypair
from services.kit.wire.server import running
from services.local.database import WORLD_GRAPH_POLICY
from services.runtime import server as runtime
from services.runtime.commands.migrate import migrate
from services.runtime.settings import RuntimeSettings
from services.sql_executor import server as sql_executor
from services.sql_executor.policy import load_policy
from services.sql_executor.provisioning import apply
from services.sql_executor.settings import SqlExecutorSettings
from tests.fixtures.client import watched
from tests.fixtures.ended import Ended
from tests.fixtures.postgres import PostgresCluster
from tests.fixtures.scripted_model import Reply, ScriptedModel
from tests.fixtures.walks import check_walk

GIVEN_UP_S = 120.0
SECRET, PASSWORD = "a caller secret of the tests, forty characters", "reader-password"
# Roles are a cluster's, and what stands for a whole session has its own: a platform that other tests start on the same
# cluster gives the usual ones another password, and no new connection of ours would be let in.
READER = "incidents_reader"
SQL_POLICY = f"""
version: 1
database: services
roles: {{reader: {READER}, owner: incidents_policy}}
owner: {{subject_type: integer}}
tables:
  deployments: {{shared: true}}
  service_metrics: {{shared: true}}
"""
SCRIPTED = {"incident": "incident"}
OFFLINE = {"incident": "signalbox-offline-incident"}
CONFIRMED = Reply.text(
    json.dumps(
        {"bears_on_cause": True, "time_fits": True, "explains_symptom": True, "problems": [], "reason": "It does."}
    )
)
Incident = incident_investigation_pb2.IncidentInvestigationInput


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs these tests in the event loop of what they share."""
    for item in items:
        if item.nodeid.startswith("tests/integration/incidents/") and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@dataclass
class Bench:
    """The platform's inside around a world of services, and the models that a test scripts."""

    model: ScriptedModel
    world: ServiceWorld
    source: sast_pb2.CodeSource
    settings: RuntimeSettings
    callers: KeyPair
    stub: Any = None

    def auth(self, subject: str = "27") -> tuple[tuple[str, str], ...]:
        """Metadata of the gateway's calls for a caller."""
        return (bearer_metadata(CallerTokenMinter(self.callers.private_pem).mint(Caller(subject))),)

    def script(self, *replies: Reply, validation: Sequence[Reply] = ()) -> None:
        """Says what the models answer."""
        self.model.requests.clear()
        self.model.script("incident", replies)
        if validation:
            self.model.script("validation", validation)
        else:
            self.model.respond("validation", lambda _: CONFIRMED)

    def incident(self, case: Case = CASES[0], **changes: Any) -> Incident:
        """A case as it is reported; under an id of its own, where none is given."""
        started_at = timestamp_pb2.Timestamp()
        started_at.FromDatetime(self.world.noticed(case))
        severity = incident_investigation_pb2.IncidentSeverity.Value(f"INCIDENT_SEVERITY_{case.severity}")
        given: dict[str, Any] = {
            "incident_id": uuid4().hex, "title": self.world.title(case), "service": self.world.names[case.seen_at],
            "started_at": started_at, "severity": severity, "text": case.text, "source": self.source,
        }  # fmt: skip
        return Incident(**{**given, **changes})

    async def create(
        self, incident: Incident, *, subject: str = "27", budget: Mapping[str, int] | None = None, **request: Any
    ) -> runs_pb2.Run:
        """Creates a run."""
        asked = runs_pb2.CreateRunRequest(
            input=runs_pb2.RunInput(incident_investigation=incident),
            budget=caller_pb2.Budget(**(budget or {})),
            **{"correlation_id": "c-1", **request},
        )
        answer = await self.stub.CreateRun(asked, metadata=self.auth(subject), timeout=GIVEN_UP_S)
        run: runs_pb2.Run = answer.run
        return run

    def events(self, run_id: str, *, subject: str = "27") -> AsyncIterator[runs_pb2.RunEvent]:
        """Yields what happens to a run, from its beginning."""
        return watched(self.stub, self.auth(subject), run_id, timeout_s=GIVEN_UP_S)

    async def watch(self, run_id: str, *, subject: str = "27") -> Ended:
        """Waits for the end of a run."""
        auth = self.auth(subject)
        seen = await self._until_it_rests(run_id, auth)
        found = await self.stub.GetRun(runs_pb2.GetRunRequest(run_id=run_id), metadata=auth, timeout=GIVEN_UP_S)
        listed = await self.stub.ListDecisions(
            runs_pb2.ListDecisionsRequest(run_id=run_id, page_size=1000), metadata=auth, timeout=GIVEN_UP_S
        )
        completed = [event.node_completed for event in seen if event.HasField("node_completed")]
        check_walk(found.run.agent, listed.decisions, found.run.policy, completed)
        return Ended(found.run, list(listed.decisions))

    async def _until_it_rests(self, run_id: str, auth: Any) -> list[runs_pb2.RunEvent]:
        """Returns what happens to a run; says how it stands, should the watch not end."""
        seen: list[runs_pb2.RunEvent] = []
        try:
            async for event in watched(self.stub, auth, run_id, timeout_s=GIVEN_UP_S):
                seen = [*seen, event]
        except grpc.aio.AioRpcError as error:
            asked = runs_pb2.GetRunRequest(run_id=run_id)
            found = await self.stub.GetRun(asked, metadata=auth, timeout=GIVEN_UP_S)
            raise AssertionError(f"the watch saw {seen} of {found.run}, asked models {self.model.requests}") from error
        return seen

    async def investigate(self, incident: Incident | None = None, **more: Any) -> Ended:
        """Investigates an incident to its end."""
        run = await self.create(incident or self.incident(), **more)
        return await self.watch(run.run_id, subject=more.get("subject", "27"))


@asynccontextmanager
async def standing(
    world: ServiceWorld,
    cluster: PostgresCluster,
    falkor_url: str,
    *,
    models: Mapping[str, str] = SCRIPTED,
    offline_url: str = "",
) -> AsyncIterator[Bench]:
    """Everything around a world of services, with one replica of the runtime."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="incidents-")))
        runs, callers = generate_keypair(), generate_keypair()
        texts = {
            "run.pub": runs.public_pem, "run.key": runs.private_pem, "call.pub": callers.public_pem,
            "sql.yaml": SQL_POLICY,
        }  # fmt: skip
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        services, platform = cluster.create_database(), cluster.create_database()
        stack.callback(cluster.drop_database, services)
        stack.callback(cluster.drop_database, platform)
        await _fill(cluster.dsn(services), world, folder / "sql.yaml")
        migrate(cluster.dsn(platform))
        graph_name = f"g{uuid4().hex}"
        await incident_graph.make_graph(falkor_url, [graph_name], world)
        made = incident_repository.make(folder / "repositories" / "services", world)
        model = await stack.enter_async_context(ScriptedModel())
        model.respond("guard", lambda _: Reply.text("ALLOW"))
        key = folder / "run.pub"
        sql = SqlExecutorSettings(
            database_dsn=_as_reader(cluster.dsn(services)), sql_policy=folder / "sql.yaml", caller_secret=SECRET,
            run_token_public_key_file=key, shutdown_grace_s=1,
        )  # fmt: skip
        graph = GraphExecutorSettings(
            graph_url=falkor_url, graph_policy=WORLD_GRAPH_POLICY, graph_name=graph_name,
            run_token_public_key_file=key, shutdown_grace_s=1,
        )  # fmt: skip
        code = CodeExecutorSettings(
            run_token_public_key_file=key, code_local_roots=(folder / "repositories",),
            code_cache_dir=folder / "cache", shutdown_grace_s=1,
        )  # fmt: skip
        screen = GuardSettings(
            run_token_public_key_file=key, guard_model="guard", model_base_url=model.base_url, shutdown_grace_s=1,
        )  # fmt: skip
        judge = EvaluatorSettings(
            run_token_public_key_file=key, model_base_url=offline_url or model.base_url, shutdown_grace_s=1,
            evaluator_model="signalbox-offline-evaluator" if offline_url else "validation",
        )  # fmt: skip
        targets: dict[str, Any] = {}
        wanted: Sequence[tuple[str, Any, Any]] = (
            ("sql_executor", sql, sql_executor.build),
            ("graph_executor", graph, graph_executor.build),
            ("code_executor", code, code_executor.build),
            ("guard", screen, guard.build),
            ("evaluator", judge, evaluator.build),
        )
        for name, given, build in wanted:
            served = await stack.enter_async_context(running(name, given, build))
            targets[f"{name}_target"] = f"ipv4:{served.address}"
        settings = RuntimeSettings(
            database_dsn=cluster.dsn(platform),
            run_token_private_key_file=folder / "run.key",
            caller_token_public_key_file=folder / "call.pub",
            model_base_url=offline_url or model.base_url,
            model_retries=0,
            drain_s=0.5,
            sweep_interval_s=0.1,
            agent_model="agent",
            format_model="format",
            models=dict(models),
            **targets,
        )
        source = sast_pb2.CodeSource(repository=made.path, commit=made.commit)
        bench = Bench(model, world, source, settings, callers)
        replica = await stack.enter_async_context(running("runtime", settings, runtime.build))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(replica.address))
        bench.stub = runs_pb2_grpc.RunServiceStub(channel)
        yield bench


def _as_reader(dsn: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    return psycopg.conninfo.make_conninfo("", **{**parts, "user": READER, "password": PASSWORD})


async def _fill(dsn: str, world: ServiceWorld, policy: Path) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await make_tables(connection, world)
        await apply(connection, load_policy(policy), secret=SECRET, reader_password=PASSWORD)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def bench(postgres_cluster: PostgresCluster, falkordb: str) -> AsyncIterator[Bench]:
    """The harbour's services, with scripted models."""
    async with standing(ServiceWorld(), postgres_cluster, falkordb) as made:
        yield made


def calls(*asked: tuple[str, Mapping[str, Any]]) -> Reply:
    """Asks for tools."""
    return Reply.all_tool_calls(asked)


def told(conclusion: Mapping[str, Any]) -> Reply:
    """Hands a conclusion in as text, as the last call has to."""
    return Reply.text(json.dumps(conclusion))
