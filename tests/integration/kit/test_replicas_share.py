"""Replicas that come and go under one DNS name: each gets its share soon, and no call is lost.

Every service is served by `running` and called through `connect`, so what holds for these two holds for all of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from signalbox.v1 import guard_pb2, guard_pb2_grpc

from services.kit.settings import ServiceSettings
from services.kit.wire.client import connect
from services.kit.wire.server import Registration, Service, running
from tests.fixtures.certificates import Authority
from tests.fixtures.names import NAME, NameServer

TIMEOUT_S = 60.0
SAMPLE = 300
AT_ONCE = 4
GUARD = "signalbox.v1.GuardService"


class Replica(guard_pb2_grpc.GuardServiceServicer):
    """Says who it is; a question that is `wait` it answers when it is let go."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.reached = asyncio.Event()
        self.let_go = asyncio.Event()
        self.holds_drain = False

    async def Screen(self, request: Any, _context: Any) -> guard_pb2.ScreenResponse:  # noqa: N802 - the proto's name
        """Answers with its address."""
        if request.question == "wait":
            self.reached.set()
            await self.let_go.wait()
        return guard_pb2.ScreenResponse(reason=self.address)

    async def drain(self) -> None:
        """Takes until it is let go, if it is held."""
        if self.holds_drain:
            await self.let_go.wait()


class Fleet:
    """Replicas at addresses of their own and one port, and a caller who knows them by name."""

    def __init__(self, stack: AsyncExitStack, names: NameServer, server: ServiceSettings, port: int) -> None:
        self._stack = stack
        self._settings = server
        self._port = port
        self.names = names
        self.replicas: dict[str, Replica] = {}
        self._stops: dict[str, AsyncExitStack] = {}
        self.stub: guard_pb2_grpc.GuardServiceAsyncStub

    async def start(self, address: str) -> None:
        """Starts a replica; the name leads to it once it is ready."""
        replica = self.replicas[address] = Replica(address)

        async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
            registration = Registration(guard_pb2_grpc.add_GuardServiceServicer_to_server, replica, GUARD)
            return Service([registration], drain=replica.drain)

        settings = self._settings.model_copy(update={"listen": f"{address}:{self._port}"})
        own = self._stops[address] = await self._stack.enter_async_context(AsyncExitStack())
        served = await own.enter_async_context(running("replica", settings, build))
        self._port = int(served.address.rpartition(":")[2])
        self.names.addresses = [*self.names.addresses, address]

    async def stop(self, address: str) -> None:
        """Stops a replica; the name goes on leading to it."""
        await self._stops[address].aclose()

    async def call(self, client: ServiceSettings) -> None:
        """Opens the caller's channel."""
        channel = await self._stack.enter_async_context(connect(self.names.target(self._port), client))
        self.stub = guard_pb2_grpc.GuardServiceStub(channel)

    async def ask(self, question: str = "who?") -> str:
        """Makes a call, and returns the address of the replica that answered. Raises AioRpcError."""
        answer = await self.stub.Screen(guard_pb2.ScreenRequest(question=question), timeout=TIMEOUT_S)
        return answer.reason

    async def sample(self) -> Counter[str]:
        """Makes a number of calls, some at once, and counts who answered."""
        counts: Counter[str] = Counter()
        for _ in range(SAMPLE // AT_ONCE):
            counts.update(await asyncio.gather(*(self.ask() for _ in range(AT_ONCE))))
        return counts

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Waits for what is to come."""
        async with asyncio.timeout(TIMEOUT_S):
            while not await condition():  # noqa: ASYNC110 - what is waited for is what calls show
                await asyncio.sleep(0.01)

    async def answered_by(self, address: str) -> bool:
        """Makes a call; says whether that replica answered it."""
        return await self.ask() == address


def fair(counts: Counter[str], *addresses: str) -> bool:
    share = SAMPLE / len(addresses)
    return set(counts) == set(addresses) and all(0.5 * share <= count <= 1.5 * share for count in counts.values())


@pytest.fixture(params=["plain", "mtls"])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Two replicas and a caller; under mTLS their certificates are for the name, and for no address."""
    authority = Authority(tmp_path)
    tls = {} if request.param == "plain" else authority.issue("replica", NAME).settings()
    peer = {} if request.param == "plain" else authority.issue("caller").settings()
    server = ServiceSettings(listen="127.0.0.2:0", shutdown_grace_s=TIMEOUT_S, **tls)  # type: ignore[arg-type]
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(NameServer())
        made = Fleet(stack, names, server, 0)
        await made.start("127.0.0.2")
        await made.start("127.0.0.3")
        await made.call(ServiceSettings(**peer))  # type: ignore[arg-type]
        yield made


async def test_a_new_replica_gets_its_share(fleet: Fleet) -> None:
    await fleet.until(lambda: fleet.answered_by("127.0.0.3"))
    assert fair(await fleet.sample(), "127.0.0.2", "127.0.0.3")
    await fleet.start("127.0.0.4")
    await fleet.until(lambda: fleet.answered_by("127.0.0.4"))
    assert fair(await fleet.sample(), "127.0.0.2", "127.0.0.3", "127.0.0.4")


async def test_a_replica_that_leaves_the_name_gets_no_calls_and_ends_those_it_has(fleet: Fleet) -> None:
    await fleet.until(lambda: fleet.answered_by("127.0.0.2"))
    await fleet.until(lambda: fleet.answered_by("127.0.0.3"))
    calls = [asyncio.create_task(fleet.ask("wait")) for _ in range(AT_ONCE)]
    async with asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(*(replica.reached.wait() for replica in fleet.replicas.values()))
    fleet.names.addresses = ["127.0.0.2"]

    async def gone() -> bool:
        return "127.0.0.3" not in await fleet.sample()

    await fleet.until(gone)
    for replica in fleet.replicas.values():
        replica.let_go.set()
    assert set(await asyncio.gather(*calls)) == {"127.0.0.2", "127.0.0.3"}


async def test_all_replicas_are_replaced_and_no_call_fails(fleet: Fleet) -> None:
    await fleet.start("127.0.0.4")
    await fleet.start("127.0.0.5")
    fleet.names.addresses = ["127.0.0.4", "127.0.0.5"]

    async def replaced() -> bool:
        return fair(await fleet.sample(), "127.0.0.4", "127.0.0.5")

    await fleet.until(replaced)


async def test_an_address_where_nobody_listens_is_not_picked(fleet: Fleet) -> None:
    fleet.names.addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.9"]
    asked = fleet.names.queries

    async def resolved() -> bool:
        await fleet.ask()
        return fleet.names.queries > asked

    await fleet.until(resolved)
    assert fair(await fleet.sample(), "127.0.0.2", "127.0.0.3")


async def test_a_replica_that_drains_is_not_picked_though_it_answers(fleet: Fleet) -> None:
    await fleet.start("127.0.0.4")
    await fleet.until(lambda: fleet.answered_by("127.0.0.4"))
    fleet.replicas["127.0.0.4"].holds_drain = True
    draining = asyncio.create_task(fleet.stop("127.0.0.4"))

    async def left_out() -> bool:
        return "127.0.0.4" not in await fleet.sample()

    await fleet.until(left_out)
    fleet.replicas["127.0.0.4"].let_go.set()
    await draining


async def test_a_name_that_leads_nowhere_yet_is_waited_for(fleet: Fleet) -> None:
    known, fleet.names.addresses = fleet.names.addresses, []
    asked = guard_pb2.ScreenRequest(question="who?")
    call = asyncio.ensure_future(fleet.stub.Screen(asked, timeout=TIMEOUT_S, wait_for_ready=True))

    async def looked_up() -> bool:
        return fleet.names.queries > 0

    await fleet.until(looked_up)
    fleet.names.addresses = known
    assert (await call).reason in fleet.replicas
