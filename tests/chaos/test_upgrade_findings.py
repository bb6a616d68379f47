"""While the last release and this one change places, forwards and back, no finding is decided one way and the other.

One may leave to a person what the other decides: what a verdict has to rest on is no contract between them.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import grpc
import pytest
from signalbox.v1 import maintenance_pb2, maintenance_pb2_grpc, runs_pb2, sast_pb2

from examples.harbour import repository as portal
from services.cli.triage import triage_input
from services.findings.investigation.items import investigation_input
from services.findings.investigation.repository import open_source
from services.findings.sarif.documents import read_document
from services.findings.sarif.findings import read_results
from services.findings.sarif.paths import RepositoryPaths
from services.kit.identity.bearer import bearer_metadata
from services.local.processes import ServiceProcess
from services.local.settings import inherited_environment
from services.local.stack import LocalStack
from services.local.topology import OFFLINE_MODEL, StackOptions
from tests.chaos.load import CUT, WatchedRun, hear_out
from tests.chaos.upgrading import in_its_world, migrate, upgraded
from tests.fixtures.client import RunClient
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.release import last_release

SUBJECT = "27"
AT_ONCE = 6
ONE_OF = 3
TIMEOUT_S = 240.0
# The last release has a setting for each of these.
MODELS = {f"SIGNALBOX_{role.upper()}_MODEL": f"signalbox-offline-{role}" for role in ("triage", "research", "analysis")}
INPUTS = (triage_input, investigation_input)
Asked = tuple[str, str]


@dataclass
class Reviewing:
    """Callers who ask about the same findings again and again, and what they were told of each."""

    requests: dict[Asked, runs_pb2.RunInput]
    told: dict[Asked, list[WatchedRun]] = field(default_factory=lambda: defaultdict(list))
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @asynccontextmanager
    async def running(self, stack: LocalStack) -> AsyncIterator[None]:
        """Asks inside the context; at its end lets every run come to its own end. Raises what any caller met."""
        stopping = asyncio.Event()
        turns = itertools.takewhile(lambda _: not stopping.is_set(), itertools.cycle(self.requests.items()))
        async with grpc.aio.insecure_channel(stack.gateway_address) as channel, asyncio.TaskGroup() as callers:
            client = RunClient(channel, stack.token(SUBJECT))
            for _ in range(AT_ONCE):
                callers.create_task(self._ask_on(client, turns))
            try:
                yield
            finally:
                stopping.set()

    async def once_more(self) -> None:
        """Waits until each has been asked about, from now on, once more at least."""
        under_way = 1  # as many are asked about by turns as are asked about at once, or more
        before = {asked: len(told) + under_way for asked, told in self.told.items()}
        async with asyncio.timeout(TIMEOUT_S), self._changed:
            await self._changed.wait_for(
                lambda: all(len(self.told[asked]) > before.get(asked, 0) for asked in self.requests)
            )

    def heard(self) -> dict[Asked, int]:
        """How often each has been asked about to the end."""
        return {asked: len(told) for asked, told in self.told.items()}

    async def _ask_on(self, client: RunClient, turns: Iterable[tuple[Asked, runs_pb2.RunInput]]) -> None:
        for asked, given in turns:
            told = WatchedRun(name=" ".join(asked))
            create = runs_pb2.CreateRunRequest(input=given, request_id=str(uuid4()))
            await hear_out(client, create, told, mending=CUT)
            async with self._changed:
                self.told[asked].append(told)
                self._changed.notify_all()


def verdict(run: runs_pb2.Run) -> sast_pb2.Verdict:
    """What a run found."""
    found: sast_pb2.Verdict = getattr(run.output, run.agent).verdict
    return found


async def requests_of(folder: Path) -> dict[Asked, runs_pb2.RunInput]:
    """What is asked: each agent about some of what Bandit says of the portal."""
    made, log = portal.create(folder / "service"), folder / "bandit.sarif"
    source = await open_source(made.path, made.commit)
    arguments = ["-q", "-c", f"{made.path}/pyproject.toml", "-r", made.path, "-f", "sarif", "-o", str(log)]
    scan = [sys.executable, "-m", "bandit", *arguments, "--exit-zero"]
    await asyncio.to_thread(subprocess.run, scan, check=True, timeout=120)
    results = read_results(read_document(log), RepositoryPaths(root=made.path, files=source.files))
    code = sast_pb2.CodeSource(repository=made.path, commit=made.commit)
    return {
        (make.__name__, result.fingerprint): make(result.finding, code)
        for result in [each for each in results if not each.skipped][::ONE_OF]
        for make in INPUTS
    }


@asynccontextmanager
async def model_beside(stack: LocalStack) -> AsyncIterator[dict[str, str]]:
    """Starts the offline model of this release beside the last one's; yields what has services ask that.

    Neither reads prompts of the other: what a stand-in understands is no contract.
    """
    program = stack.service(OFFLINE_MODEL).program
    env = {name: value for name, value in program.env.items() if name != "PYTHONPATH"}
    newer = replace(program, name=f"{OFFLINE_MODEL}-new", env=env)
    model = ServiceProcess(newer, stack.directory, ready_timeout_s=START_TIMEOUT_S)
    try:
        yield {"SIGNALBOX_MODEL_BASE_URL": f"http://{(await model.start()).listen}/v1"}
    finally:
        await model.stop()


async def killed(service: ServiceProcess, reviewing: Reviewing) -> None:
    """Kills a replica, lets the other go on alone, and starts it again."""
    await service.kill()
    await reviewing.once_more()
    await service.start()


async def verify_ledger(stack: LocalStack) -> None:
    """Checks that this release finds again, by their facts and limits, the decisions of both."""
    async with grpc.aio.insecure_channel(stack.gateway_address) as channel:
        service = maintenance_pb2_grpc.MaintenanceServiceStub(channel)
        operator = (bearer_metadata(stack.token("ops", ["operator"])),)
        request = maintenance_pb2.VerifyDecisionsRequest()
        verified = await service.VerifyDecisions(request, metadata=operator, timeout=START_TIMEOUT_S)
        assert verified.decision_count
        assert not verified.disagreement_count, verified.disagreements


@pytest.mark.timeout(1200)
async def test_forwards_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = last_release(tmp_path / "release")
    in_its_world(release, monkeypatch)
    reviewing = Reviewing(await requests_of(tmp_path))
    assert len(reviewing.requests) >= AT_ONCE
    options = StackOptions(
        code_agents=True,
        code_roots=(tmp_path,),
        runtime_replicas=2,
        base_env={**inherited_environment(), **release.env, **MODELS},
        ready_timeout_s=START_TIMEOUT_S,
    )
    async with LocalStack(options) as stack, model_beside(stack) as model:
        first, second = stack.runtimes
        async with reviewing.running(stack):
            await reviewing.once_more()
            await migrate(stack.databases.platform_dsn, stack.directory)
            await reviewing.once_more()
            async with upgraded(first, stack.directory, **model) as newer:
                await killed(newer, reviewing)
                await killed(second, reviewing)
        async with AsyncExitStack() as upgrade:
            # Nobody asks while these change places: the last release does not wait for one that is away.
            for name in ("guard", "code_executor"):
                await upgrade.enter_async_context(upgraded(stack.service(name), stack.directory, **model))
            async with AsyncExitStack() as rest:
                async with reviewing.running(stack):
                    await reviewing.once_more()
                    await rest.aclose()
                    await reviewing.once_more()
                    for service in (first, second, stack.service("gateway")):
                        await rest.enter_async_context(upgraded(service, stack.directory, **model))
                    await reviewing.once_more()
                before = reviewing.heard()
                # The last runtime does not say what of code is a comment: to this evaluator, it has read nothing.
                async with upgraded(stack.service("evaluator"), stack.directory, **model), reviewing.running(stack):
                    await reviewing.once_more()  # the last release is gone
                    await verify_ledger(stack)
                alone = [each.run for asked, told in reviewing.told.items() for each in told[before[asked] :]]
                for agent in {run.agent for run in alone}:
                    decided = {verdict(run) for run in alone if run.agent == agent} - {sast_pb2.VERDICT_NEEDS_REVIEW}
                    assert decided, f"this release decides nothing by {agent}"
                async with reviewing.running(stack):
                    await reviewing.once_more()
                    await rest.aclose()
                    await reviewing.once_more()
        async with reviewing.running(stack):
            await reviewing.once_more()
    runs = [each.run for told in reviewing.told.values() for each in told]
    failed = [run for run in runs if run.state == runs_pb2.RUN_STATE_FAILED]
    assert not failed, [
        (run.agent, run.graph_version, run.epoch, run.create_time.ToJsonString(), run.error) for run in failed
    ]
    assert any(run.epoch > 1 for run in runs), "no run was ever taken over: the kills hit nothing"
    for asked, told in reviewing.told.items():
        decided = {verdict(each.run) for each in told} - {sast_pb2.VERDICT_NEEDS_REVIEW}
        assert len(decided) <= 1, (asked, decided)
