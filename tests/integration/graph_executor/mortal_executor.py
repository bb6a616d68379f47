"""The graph executor as a process that kills itself before or after any of its queries."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from pydantic import Field
from signalbox.v1 import tools_pb2_grpc

from services.graph_executor.bolt import Bolt, BoltTransaction
from services.graph_executor.bolt_store import BoltStore
from services.graph_executor.falkor import Falkor
from services.graph_executor.falkor_store import FalkorStore
from services.graph_executor.policy import GraphPolicy
from services.graph_executor.server import make_servicer
from services.graph_executor.settings import GraphExecutorSettings
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.telemetry.names import AUDIENCE_GRAPH_EXECUTOR
from services.kit.text.policy_file import load_policy_file
from services.kit.tools.executor import SERVICE_NAME
from services.kit.wire.server import Registration, Service, main
from tests.contract.steps import Steps


class MortalSettings(GraphExecutorSettings):
    """What it needs besides."""

    die_at_step: int = Field(0, description="Step at which the process kills itself; 0: none.")


class MortalTransaction(BoltTransaction):
    """A transaction with a step before and after its commit; what dies before is rolled back, wherever it was."""

    def __init__(self, begun: BoltTransaction, steps: Steps) -> None:
        self._begun = begun
        self._steps = steps
        self.run, self.close = begun.run, begun.close  # type: ignore[method-assign]

    async def commit(self) -> None:
        """Commits."""
        self._steps.take()
        await self._begun.commit()
        self._steps.take()


class MortalBolt(Bolt):
    """A server, with steps around each commit."""

    def __init__(self, steps: Steps, url: str, **settings: Any) -> None:
        super().__init__(url, **settings)
        self._steps = steps

    async def begin(self, database: str, access: str) -> BoltTransaction:
        """Begins a transaction."""
        return MortalTransaction(await super().begin(database, access), self._steps)


async def build(settings: MortalSettings, stack: AsyncExitStack) -> Service:
    """Wires the executor."""
    policy = load_policy_file(settings.graph_policy, GraphPolicy)
    steps = Steps(settings.die_at_step)
    url, timeout_ms = settings.graph_url.get_secret_value(), policy.limits.timeout_ms
    store: BoltStore | FalkorStore
    if settings.speaks_bolt:
        bolt = MortalBolt(steps, url, ca=None, connections=2, wait_s=5, timeout_ms=timeout_ms)
        stack.push_async_callback(bolt.aclose)
        store = BoltStore(bolt, policy)
    else:
        falkor = Falkor(url, ca=None, connections=2, wait_s=5, timeout_ms=timeout_ms)
        stack.push_async_callback(falkor.aclose)
        store = FalkorStore(steps.around(falkor), policy)
    await store.prepare(settings.graph_name)
    steps.begin()
    verifier = RunTokenVerifier(settings.run_token_public_key_file.read_text("ascii"), AUDIENCE_GRAPH_EXECUTOR)
    servicer = make_servicer(settings, policy, store, verifier)
    return Service([Registration(tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server, servicer, SERVICE_NAME)])


if __name__ == "__main__":
    main("mortal_executor", MortalSettings, build)
