"""Settings of the MCP executor."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from services.kit.settings import OptionalFile, ServiceSettings


class McpExecutorSettings(ServiceSettings):
    """Settings of the MCP executor; every one is SIGNALBOX_<NAME> in the environment."""

    run_token_public_key_file: Path = Field(description="PEM public key (Ed25519) that verifies run tokens.")
    mcp_servers: Path = Field(description="File (YAML) of MCP servers, and of their tools that agents may call.")
    mcp_accepted: OptionalFile = Field(
        None,
        description="File (JSON) of those tools as somebody has accepted them; `signalbox mcp-tools` writes it. "
        "Empty: the one beside SIGNALBOX_MCP_SERVERS, `servers.accepted.json` of `servers.yaml`.",
    )
    mcp_ca: OptionalFile = Field(None, description="PEM certificates that are trusted for https; empty: the system's.")
    mcp_connect_timeout_s: float = Field(10, gt=0, le=120, description="Seconds that connecting to a server may take.")
    mcp_call_timeout_s: float = Field(
        45,
        gt=0,
        le=3600,
        description="Seconds that one call of a tool may take, connecting included. Less than the runtime's "
        "tool_timeout_s: of a call that the runtime has given up nobody is told that its outcome is unknown.",
    )
    mcp_calls_at_once: int = Field(16, ge=1, le=1000, description="Most calls of one server under way at once.")
    mcp_result_chars: int = Field(60_000, ge=100, le=1_000_000, description="Most characters of one result.")
    mcp_answer_bytes: int = Field(
        4 * 1024**2, ge=1024, le=64 * 1024**2, description="Largest message of a server, in bytes."
    )
    mcp_check_interval_s: float = Field(
        60, ge=0, le=86_400, description="Seconds after which a call first asks a server anew which tools it has."
    )

    @property
    def accepted_file(self) -> Path:
        """The file of accepted tools."""
        return self.mcp_accepted or accepted_beside(self.mcp_servers)


def accepted_beside(servers: Path) -> Path:
    """Returns where tools of a file of servers are accepted, unless another place is given."""
    return servers.with_name(f"{servers.stem}.accepted.json")
