"""Keys from the issuer's URL: fetched in the background, so that a URL that hangs costs nobody whose key is known."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import jwt
import pytest
from aiohttp import web
from signalbox.v1 import runs_pb2

from services.gateway import issuer_keys
from services.gateway.issuer_keys import ANSWER_STANDS_S
from services.kit.errors import error_detail
from services.kit.identity.keys import EDDSA, KeyPair, generate_keypair
from services.local.keys import public_jwk
from tests.integration.gateway.conftest import AUDIENCE, ISSUER, Platform, StartPlatform

TIMEOUT_S = 60.0
STRANGERS = 20


class Issuer:
    """An issuer with keys by id, whose URL can hang."""

    def __init__(self) -> None:
        self.keys: dict[str, KeyPair] = {"first": generate_keypair()}
        self.fetches = 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.url = ""
        self.says: str | None = None

    async def serve(self, _request: web.Request) -> web.Response:
        """Answers with the document, once it answers."""
        self.fetches += 1
        await self.answers.wait()
        keys = [{**public_jwk(pair), "kid": key_id} for key_id, pair in self.keys.items()]
        return web.Response(text=self.says if self.says is not None else json.dumps({"keys": keys}))

    def token(self, key_id: str, subject: str = "27", pair: KeyPair | None = None) -> tuple[tuple[str, str], ...]:
        """Metadata with a token that names a key."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "roles": [], "iat": now, "exp": now + 300}
        key = (pair or self.keys[key_id]).private_pem
        return (("authorization", f"Bearer {jwt.encode(claims, key, algorithm=EDDSA, headers={'kid': key_id})}"),)


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    made = Issuer()
    app = web.Application()
    app.router.add_get("/keys", made.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/keys"
    yield made
    await runner.cleanup()


@pytest.fixture
async def platform(start_platform: StartPlatform, issuer: Issuer) -> Platform:
    return await start_platform(jwks_file=None, jwks_url=issuer.url)


async def reason(platform: Platform, metadata: tuple[tuple[str, str], ...]) -> str:
    """Why a call is refused; empty when it is not."""
    try:
        await platform.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=metadata, timeout=TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        return error_detail(error).reason
    return ""


async def test_callers_with_a_known_key_are_served_while_strangers_wait_for_a_url_that_hangs(
    platform: Platform, issuer: Issuer
) -> None:
    issuer.answers.clear()
    stranger = generate_keypair()
    began, waiting = time.monotonic(), []
    async with asyncio.timeout(TIMEOUT_S):
        while issuer.fetches < 2:  # the answer at the start stands for a moment
            waiting.append(asyncio.create_task(reason(platform, issuer.token("unknown", pair=stranger))))
            await asyncio.sleep(0.1)
    waiting += [
        asyncio.create_task(reason(platform, issuer.token(f"unknown-{number}", pair=stranger)))
        for number in range(STRANGERS)
    ]
    served = [await reason(platform, issuer.token("first", subject=f"new-{number}")) for number in range(STRANGERS)]
    assert served == [""] * STRANGERS
    assert set(await asyncio.gather(*waiting)) <= {"TOKEN_INVALID", "KEYS_UNAVAILABLE"}
    assert waiting[-1].result() == "KEYS_UNAVAILABLE"
    # One at the start, and one each time that the last has been given up for a while, for all who wait.
    assert issuer.fetches <= 2 + (time.monotonic() - began) / ANSWER_STANDS_S
    issuer.answers.set()


async def test_strangers_cost_the_issuer_one_request_in_a_while(platform: Platform, issuer: Issuer) -> None:
    stranger = generate_keypair()
    began = time.monotonic()
    refused = [await reason(platform, issuer.token(f"unknown-{number}", pair=stranger)) for number in range(STRANGERS)]
    # One at the start, and one each time that the last answer has grown old.
    assert issuer.fetches <= 2 + (time.monotonic() - began) / ANSWER_STANDS_S
    assert refused == ["TOKEN_INVALID"] * STRANGERS


async def test_a_rotated_key_is_found(platform: Platform, issuer: Issuer) -> None:
    assert await reason(platform, issuer.token("first")) == ""
    issuer.keys["second"] = generate_keypair()
    async with asyncio.timeout(TIMEOUT_S):
        while await reason(platform, issuer.token("second")):  # noqa: ASYNC110 - a caller who tries again
            await asyncio.sleep(0.1)
    assert await reason(platform, issuer.token("first")) == ""


async def test_a_known_key_costs_no_thread(platform: Platform, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await reason(platform, issuer.token("first")) == ""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a thread was taken")

    monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", refuse, raising=False)
    assert await reason(platform, issuer.token("first", subject="another")) == ""


async def test_a_gateway_waits_for_the_first_keys(start_platform: StartPlatform, issuer: Issuer) -> None:
    issuer.answers.clear()
    start = asyncio.ensure_future(start_platform(jwks_file=None, jwks_url=issuer.url))
    async with asyncio.timeout(TIMEOUT_S):
        while issuer.fetches < 2:  # noqa: ASYNC110 - the first was given up
            await asyncio.sleep(0.01)
    assert not start.done()
    issuer.answers.set()
    assert await reason(await start, issuer.token("first")) == ""


@pytest.mark.parametrize(
    "odd", ["[]", "null", '"maintenance"', '{"keys": [7]}', '{"keys": 7}', "[" * 100_000, "<html>"]
)
async def test_an_odd_answer_is_no_end_of_looking(
    start_platform: StartPlatform, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    """A key that is taken back would be believed for as long as the gateway runs."""
    for name in ("REFRESH_S", "RETRY_S", "ANSWER_STANDS_S"):
        monkeypatch.setattr(issuer_keys, name, 0.01)
    platform = await start_platform(jwks_file=None, jwks_url=issuer.url)
    revoked = issuer.keys["first"]
    assert await reason(platform, issuer.token("first")) == ""
    issuer.says, seen = odd, issuer.fetches
    async with asyncio.timeout(TIMEOUT_S):
        while issuer.fetches < seen + 3:  # noqa: ASYNC110 - it goes on asking
            await asyncio.sleep(0.01)
        assert await reason(platform, issuer.token("first", "another")) == ""
        issuer.keys, issuer.says = {"second": generate_keypair()}, None
        strangers = itertools.count()
        # A token that has been verified is believed for a while: each is another one.
        while not await reason(platform, issuer.token("first", f"stranger {next(strangers)}", revoked)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
