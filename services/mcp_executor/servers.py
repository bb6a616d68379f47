"""The file of MCP servers: how each is reached, and which of its tools agents may call."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

# What every provider of models takes as the name of a tool.
NAME: Final = r"^[a-zA-Z][a-zA-Z0-9_-]{0,63}$"
_SERVER: Final = r"^[a-z][a-z0-9_]{0,31}$"


def _https(url: str) -> str:
    if not re.match(
        r"https://[^/@]+(/|$)|http://(localhost|127\.0\.0\.1|\[::1\]|[a-z0-9.-]+\.svc(\.[a-z0-9.-]+)?)(:\d+)?(/|$)", url
    ):
        raise ValueError(
            "must begin with https://, or with http:// on this machine or in the cluster, and name no user"
        )
    return url


Url = Annotated[str, AfterValidator(_https)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AllowedTool(_Part):
    """A tool that agents may call.

    `effect` says whether it writes; without it, only what the server itself says to be read-only is offered. Of one
    that writes, `key_argument` takes a key that makes a repeated call recognisable, and `repeatable` says that it needs
    none. A call of any other may take effect more than once.
    """

    name: Annotated[str, Field(pattern=NAME)] = ""
    effect: Literal["reads", "writes"] | None = None
    key_argument: str = ""
    repeatable: bool = False

    @model_validator(mode="after")
    def _fits_its_effect(self) -> Self:
        if (self.key_argument or self.repeatable) and self.effect != "writes":
            raise ValueError("key_argument and repeatable are of tools whose effect is `writes`")
        return self


class TokenExchange(_Part):
    """Where the run's token is exchanged for one of its caller at the server (RFC 8693)."""

    url: Url
    client_id: str = ""
    client_secret_file: Path | None = None
    audience: str = ""
    resource: str = ""
    scope: str = ""
    grant_url: str = Field("", description="Where a caller gives their consent, for the words that ask for it.")


class McpServer(_Part):
    """A server: over HTTP by its `url`, or as a program beside the executor by its `command`.

    Bounds that it does not set are those of the settings.
    """

    url: Url | None = None
    command: Annotated[list[str], Field(min_length=1)] | None = None
    environment: dict[str, str] = {}
    token_file: Path | None = None
    token_exchange: TokenExchange | None = None
    call_timeout_s: Annotated[float, Field(gt=0, le=3600)] | None = None
    calls_at_once: Annotated[int, Field(ge=1, le=1000)] | None = None
    result_chars: Annotated[int, Field(ge=100, le=1_000_000)] | None = None
    tools: dict[str, AllowedTool] = {}

    @model_validator(mode="after")
    def _is_reached_one_way(self) -> Self:
        if (self.url is None) == (self.command is None):
            raise ValueError("give either url or command")
        if self.command and (self.token_file or self.token_exchange):
            raise ValueError("tokens go with a url; a command has what it needs in environment")
        if self.url and self.environment:
            raise ValueError("environment goes with a command")
        if self.token_file and self.token_exchange:
            raise ValueError("give either token_file or token_exchange")
        return self


class McpServers(_Part):
    """All servers, by name."""

    servers: dict[Annotated[str, Field(pattern=_SERVER)], McpServer]

    @model_validator(mode="after")
    def _names_are_one_tools(self) -> Self:
        seen: dict[str, str] = {}
        for server, given in self.servers.items():
            for tool, allowed in given.tools.items():
                name, place = name_of(server, tool, allowed), f"{server}.{tool}"
                if not re.match(NAME, name):
                    raise ValueError(
                        f"{place}: agents can't call it {name!r}; give it a name of letters, digits, _ and -"
                    )
                if name in seen:
                    raise ValueError(f"{place}: {seen[name]} is called {name!r} already; give it another name")
                seen[name] = place
        return self


def name_of(server: str, tool: str, allowed: AllowedTool) -> str:
    """Returns what agents call a tool."""
    return allowed.name or f"{server}_{tool}"
