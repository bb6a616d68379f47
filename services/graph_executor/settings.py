"""Settings of the graph executor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from services.kit.settings import OptionalFile, ServiceSettings

FALKORDB_SCHEMES: Final = frozenset({"redis", "rediss", "unix"})
BOLT_SCHEMES: Final = frozenset({"bolt", "bolt+s", "neo4j", "neo4j+s"})
# What is left of a database's name for the value of a claim, or a digest of it.
LONGEST_NAME_BEFORE_A_CLAIM: Final = 29


def _known_scheme(url: SecretStr) -> SecretStr:
    if urlsplit(url.get_secret_value()).scheme not in FALKORDB_SCHEMES | BOLT_SCHEMES:
        raise ValueError(f"must begin with one of: {', '.join(sorted(FALKORDB_SCHEMES | BOLT_SCHEMES))}")
    return url


class GraphExecutorSettings(ServiceSettings):
    """Settings of the graph executor; every one is SIGNALBOX_<NAME> in the environment."""

    graph_url: Annotated[SecretStr, AfterValidator(_known_scheme)] = Field(
        description="URL of the graph database. FalkorDB: redis://host:port, rediss:// for TLS, unix:///path. Neo4j, "
        "Memgraph and others that speak Bolt: bolt://host:port or neo4j://, with +s for TLS. User and password in it, "
        "if it asks for them."
    )
    graph_ca: OptionalFile = Field(
        None,
        description="PEM certificates of the authority that signs the server's, with rediss://, bolt+s:// and neo4j+s://.",
    )
    graph_policy: Path = Field(description="Policy file (YAML): labels, edge types, roles and limits.")
    graph_name: str = Field(
        "signalbox",
        pattern=r"^[a-z][a-z0-9_-]{0,62}$",
        description="Name of the graph; where a claim names it, what its name begins with. Over Bolt, of the database.",
    )
    graph_claim: str = Field(
        "",
        max_length=128,
        description="Claim of the caller's token that names their graph, such as tenant; `sub` is the subject. Empty: "
        "all callers share one.",
    )
    graph_connections: int = Field(8, ge=1, le=100, description="Most connections to the server at once.")
    graph_wait_s: float = Field(5.0, gt=0, le=60, description="Longest wait for a connection, or to connect.")
    graph_end_overdue: bool = Field(
        False,
        description="End FalkorDB (SHUTDOWN) when a caller's query runs on after its time and can't be stopped. For a "
        "server that is started again when it ends, and whose user may end it.",
    )
    run_token_public_key_file: Path = Field(description="PEM public key (Ed25519) that verifies run tokens.")

    @property
    def speaks_bolt(self) -> bool:
        """Whether the graph database is reached by Bolt."""
        return urlsplit(self.graph_url.get_secret_value()).scheme in BOLT_SCHEMES

    @model_validator(mode="after")
    def _fits_bolt(self) -> Self:
        if not self.speaks_bolt:
            return self
        if self.graph_ca and not urlsplit(self.graph_url.get_secret_value()).scheme.endswith("+s"):
            raise ValueError("SIGNALBOX_GRAPH_CA goes with bolt+s:// or neo4j+s://")
        if self.graph_claim and len(self.graph_name) > LONGEST_NAME_BEFORE_A_CLAIM:
            raise ValueError(
                f"SIGNALBOX_GRAPH_NAME may have {LONGEST_NAME_BEFORE_A_CLAIM} characters when a claim adds to it"
            )
        return self
