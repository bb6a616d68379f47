"""Settings of the HTTP API."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints
from pydantic_settings import NoDecode

from services.kit.settings import ServiceSettings

# A scheme and a host, as browsers send them: no path, no wildcard.
Origin = Annotated[str, StringConstraints(pattern=r"^https?://[A-Za-z0-9.\[\]:-]+$")]


def _split(value: Any) -> Any:
    return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value


class HttpApiSettings(ServiceSettings):
    """What the HTTP API is told; the README says how the bounds work together."""

    gateway_target: str = Field(min_length=1, description="gRPC target of the gateway, dns:///host:port or ipv4:….")
    allowed_origins: Annotated[tuple[Origin, ...], NoDecode, BeforeValidator(_split)] = Field(
        (),
        max_length=100,
        description="Origins whose pages may call it from a browser (CORS), exactly as browsers send them, such as "
        "https://chat.example.com, separated by commas. Empty: none.",
    )
    max_request_bytes: int = Field(
        1024 * 1024, ge=1024, le=16 * 1024 * 1024, description="Largest request body accepted, in bytes."
    )
    read_timeout_s: float = Field(
        30, gt=0, le=600, description="Seconds that a request's headers may take to arrive, and then its body."
    )
    send_timeout_s: float = Field(
        30, gt=0, le=600, description="Seconds that a reader of a stream may take nothing before its connection ends."
    )
    heartbeat_s: float = Field(
        5, gt=0, le=60, description="Seconds without news after which a stream says that it is there."
    )
    call_timeout_s: float = Field(30, gt=0, le=300, description="Seconds that the gateway may take for one answer.")
    recovery_s: float = Field(
        60,
        gt=0,
        le=3600,
        description="Seconds for which a stream looks for a gateway that answers before it breaks off.",
    )
    max_connections: int = Field(
        2000, ge=1, le=100_000, description="Connections at once on this replica; more are answered with 503."
    )
    tls_require_client_cert: bool = Field(
        False, description="Whether callers must show a certificate besides their token; used with TLS only."
    )
    mcp_url: Annotated[str, StringConstraints(pattern=r"^(https?://[^/@?#\s]+(/[^?#\s]*)?/mcp)?$")] = Field(
        "",
        description="Address at which clients of MCP reach this service's `/mcp`, such as "
        "https://agents.example.com/mcp. Empty: agents are not offered as tools of MCP.",
    )
    mcp_authorization_servers: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (),
        max_length=10,
        description="Issuers of callers' tokens, separated by commas, where clients of MCP ask for one: told in the "
        "metadata of `mcp_url` (RFC 9728). Empty: clients are given their token by hand.",
    )
    max_streams: int = Field(
        1000, ge=1, le=100_000, description="Streams and waits at once on this replica; more are answered with 429."
    )
    max_thread_streams: int = Field(
        50,
        ge=1,
        le=100_000,
        description="Streams of threads that one caller may have open at once on this replica, two for a page; more "
        "are answered with 429.",
    )
