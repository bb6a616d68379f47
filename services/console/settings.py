"""Settings of the console: how it serves, and for a team's, which is deployed, what its environment says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from services.kit.settings import OptionalFile, ServiceSettings

HOST: Final = re.compile(r"[a-z0-9._-]+")
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# Secure cookies go there without TLS as well.
LOOPBACK_NAME = "localhost"


@dataclass(frozen=True)
class ConsoleSettings:
    """How the console serves, reads and follows. Port 0 is any that is free."""

    port: int = 0
    page_size: int = 50
    call_timeout_s: float = 30.0
    # Shadows read the ledger of the time that is asked for.
    shadow_timeout_s: float = 60.0
    shadow_concurrency: int = 2
    versions_shown: int = 5
    # Of the newest decisions, those that tell which versions of a policy there were.
    decisions_sampled: int = 500
    runs_read_at_once: int = 8
    # A run that awaits an answer has no events until it is given.
    answer_poll_s: float = 1.0
    gateway_retry_s: float = 2.0
    max_form_bytes: int = 64 * 1024
    shutdown_grace_s: int = 1
    # Where a run's trace is looked at, with {trace_id} in it, and where the dashboards are; empty: no link.
    trace_url: str = ""
    dashboard_url: str = ""


class TeamConsoleSettings(ServiceSettings):
    """What a team's console is told; see the README for how people come in."""

    gateway_target: str = Field(min_length=1, description="gRPC target of the gateway, dns:///host:port or ipv4:….")
    public_url: str = Field(
        pattern=r"^https?://[^/?#@\s]+/?$",
        description="Address by which browsers know the console, `https://console.example.com`; the issuer sends them "
        "back to `/callback` there, and it answers to no other host. Without TLS for this machine alone.",
    )
    login: Literal["oidc", "proxy"] = Field(
        "oidc",
        description="Who logs people in: the console at an OpenID Connect issuer, or a proxy before it that hands on "
        "the caller's token in `token_header`.",
    )
    token_header: str = Field(
        "x-forwarded-access-token",
        pattern="^[A-Za-z0-9-]+$",
        description="Header in which a proxy hands on the caller's token, with or without `Bearer` before it.",
    )
    oidc_issuer: str = Field(
        "",
        pattern="^(https?://.+)?$",
        description="Issuer, as it names itself; its discovery document says the rest. Without TLS on this machine "
        "alone.",
    )
    oidc_client_id: str = Field("", description="The console's client id at the issuer.")
    oidc_client_secret_file: OptionalFile = Field(
        None, description="File with the client's secret; unset for a public client."
    )
    oidc_scope: str = Field(
        "openid profile email",
        pattern=r"(^|\s)openid(\s|$)",
        description="What the console asks for; some issuers give refresh tokens for `offline_access` only.",
    )
    oidc_token: Literal["access_token", "id_token"] = Field(
        "access_token",
        description="Which of the issuer's tokens the gateway is asked with: the one that names its audience.",
    )
    oidc_parameters: dict[str, str] = Field(
        {}, description="Further parameters of the authorization request, JSON: `audience`, `access_type` and the like."
    )
    session_keys_file: OptionalFile = Field(
        None,
        description="File with keys of at least 32 characters, one a line, that seal sessions: the first seals, all "
        "open.",
    )
    session_life_s: int = Field(
        43_200, ge=60, le=2_592_000, description="Seconds after which people log in again, whatever they do meanwhile."
    )
    trace_url: str = Field(
        "",
        pattern="^(https?://.+)?$",
        description="Where the trace of a run is looked at, with `{trace_id}` in it; unset shows no link.",
    )
    dashboard_url: str = Field(
        "", pattern="^(https?://.+)?$", description="Where the dashboards are; unset shows no link."
    )

    tls_require_client_cert: bool = Field(
        False, description="Whether who asks must show a certificate of that authority; used with TLS only."
    )

    @field_validator("public_url")
    @classmethod
    def _as_browsers_say_it(cls, url: str) -> str:
        """Returns the address as `Host` and `Origin` have it, which are compared with it."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if ":" in host:
            host = f"[{ip_address(host).compressed}]"
        elif not HOST.fullmatch(host):
            raise ValueError(f"{host} is no host as browsers send it; a name with other letters is written `xn--…`")
        port = "" if parts.port in (None, DEFAULT_PORTS[parts.scheme]) else f":{parts.port}"
        return f"{parts.scheme}://{host}{port}"

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if not is_sealed_way(self.public_url):
            raise ValueError("SIGNALBOX_PUBLIC_URL has to be https: cookies of a login are sent nowhere else")
        if self.login == "oidc":
            wanted: dict[str, str | Path | None] = {
                "SIGNALBOX_OIDC_ISSUER": self.oidc_issuer,
                "SIGNALBOX_OIDC_CLIENT_ID": self.oidc_client_id,
                "SIGNALBOX_SESSION_KEYS_FILE": self.session_keys_file,
            }
            missing = [name for name, value in wanted.items() if not value]
            if missing:
                raise ValueError(f"SIGNALBOX_LOGIN is oidc, for which {', '.join(missing)} must be set")
            if not is_sealed_way(self.oidc_issuer):
                raise ValueError("SIGNALBOX_OIDC_ISSUER has to be https: whoever reads along could log in as anybody")
        return self

    def of_pages(self) -> ConsoleSettings:
        """Returns how the pages are served."""
        return ConsoleSettings(trace_url=self.trace_url, dashboard_url=self.dashboard_url)


def is_sealed_way(url: str) -> bool:
    """Says whether nobody reads along with what goes to an address: over TLS, or not beyond this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(parts.hostname or ""))


def _is_this_machine(host: str) -> bool:
    if host == LOOPBACK_NAME:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
