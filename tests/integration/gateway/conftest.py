"""A gateway over real gRPC, in front of two replicas of a fake runtime."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from signalbox.v1 import data_chat_pb2, runs_pb2, runs_pb2_grpc

from services.gateway.server import build
from services.gateway.settings import GatewaySettings
from services.kit.identity.keys import EDDSA, KeyPair, generate_keypair
from services.kit.wire.server import running
from services.local.keys import KEY_ID, public_jwk
from tests.integration.gateway.fake_runtime import Replica, RunStore

ISSUER = "https://issuer.test"
AUDIENCE = "signalbox"


@dataclass
class Platform:
    """The gateway, what stands behind it, and the keys around it."""

    store: RunStore
    replicas: list[Replica]
    issuer_keys: KeyPair
    channel: grpc.aio.Channel
    stub: runs_pb2_grpc.RunServiceAsyncStub
    metrics_address: str
    stop_gateway: Callable[[], Awaitable[None]]

    def token(self, subject: str = "27", **changes: Any) -> str:
        """A good token, or one with some claims changed; None leaves a claim out."""
        now = int(time.time())
        good = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "roles": [], "iat": now, "exp": now + 300}
        claims = {name: value for name, value in {**good, **changes}.items() if value is not None}
        return jwt.encode(claims, self.issuer_keys.private_pem, algorithm=EDDSA, headers={"kid": KEY_ID})

    def auth(self, subject: str = "27", **changes: Any) -> tuple[tuple[str, str], ...]:
        """Metadata with a token."""
        return (("authorization", f"Bearer {self.token(subject, **changes)}"),)

    @property
    def calls(self) -> list[tuple[str, Any, Any]]:
        """Calls that reached any replica."""
        return [call for replica in self.replicas for call in replica.calls]


@dataclass
class Keys:
    """Keys of one test."""

    issuer: KeyPair = field(default_factory=generate_keypair)
    gateway: KeyPair = field(default_factory=generate_keypair)


StartPlatform = Callable[..., Awaitable[Platform]]


@pytest.fixture
async def start_platform(tmp_path: Path) -> AsyncIterator[StartPlatform]:
    """Starts a gateway with settings of its own."""
    async with AsyncExitStack() as stack:

        async def start(**settings: Any) -> Platform:
            keys, store = Keys(), RunStore()
            replicas = [Replica(store, keys.gateway.public_pem) for _ in range(2)]
            for replica in replicas:
                await replica.start()
                stack.push_async_callback(replica.stop)
            (tmp_path / "jwks.json").write_text(json.dumps({"keys": [public_jwk(keys.issuer)]}))
            (tmp_path / "gateway.pem").write_text(keys.gateway.private_pem)
            defaults: dict[str, Any] = {
                "runtime_target": "ipv4:" + ",".join(replica.address for replica in replicas),
                "caller_token_private_key_file": tmp_path / "gateway.pem",
                "jwks_file": tmp_path / "jwks.json",
                "jwt_issuer": ISSUER,
                "jwt_audience": AUDIENCE,
                "shutdown_grace_s": 1,
            }
            gateway = await stack.enter_async_context(AsyncExitStack())
            serving = await gateway.enter_async_context(
                running("gateway", GatewaySettings(**{**defaults, **settings}), build)
            )
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(serving.address))
            stub = runs_pb2_grpc.RunServiceStub(channel)
            return Platform(
                store, replicas, keys.issuer, channel, stub, serving.metrics_address, stop_gateway=gateway.aclose
            )

        yield start


@pytest.fixture
async def platform(start_platform: StartPlatform) -> Platform:
    """A gateway with default settings."""
    return await start_platform()


def question(text: str = "Count my devices", **fields: Any) -> runs_pb2.CreateRunRequest:
    """A request that is all right."""
    return runs_pb2.CreateRunRequest(
        input=runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=text)), **fields
    )
