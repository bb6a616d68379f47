"""Both key pairs are replaced under load, in the steps of docs/operations.md: no call is refused, no run is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from services.kit.identity.caller import Caller, TokenInvalid
from services.kit.identity.caller_tokens import CallerTokenMinter, CallerTokenVerifier
from services.kit.identity.keys import generate_keypair
from services.local.processes import ServiceProcess
from tests.chaos.book import check
from tests.chaos.deployment import Deployment
from tests.chaos.load import Load
from tests.chaos.test_rolling_restart import restart


async def test_keys_are_rotated_without_a_refused_call(deployed: Deployment) -> None:
    """A caller mends a cut connection, and nothing else: UNAUTHENTICATED, from anybody, would end the test."""
    stack = deployed.stack
    callers, runs = stack.keys.gateway, stack.keys.runs
    old, new = callers.public.read_text(), (generate_keypair(), generate_keypair())
    before = CallerTokenMinter(callers.private.read_text())
    first, second, third = stack.runtimes
    guard, gateway = stack.service("guard"), stack.service("gateway")
    # Two at a time; of the replicas of one service, one after another.
    verifiers = [(first, guard), (second, deployed.executor), (third,)]
    signers = [(first, gateway), (second,), (third,)]
    load = Load(deployed, concurrency=4, callers_reconnect=True)
    async with load.running():
        for files, pair in zip((callers, runs), new, strict=True):
            files.public.write_text(files.public.read_text() + pair.public_pem)
        await restart_under(load, verifiers)
        for files, pair in zip((callers, runs), new, strict=True):
            files.private.write_text(pair.private_pem)
        await restart_under(load, signers)
        for files, pair in zip((callers, runs), new, strict=True):
            files.public.write_text(pair.public_pem)
        await restart_under(load, verifiers)
        await load.more(4)
    await check(deployed, load.told)
    assert callers.public.read_text() != old
    with pytest.raises(TokenInvalid):
        CallerTokenVerifier(callers.public.read_text()).verify(before.mint(Caller("27")))


async def restart_under(load: Load, waves: Sequence[Sequence[ServiceProcess]]) -> None:
    """Restarts services, wave by wave; then a run comes to its end."""
    for wave in waves:
        await asyncio.gather(*map(restart, wave))
    await load.more(1)
