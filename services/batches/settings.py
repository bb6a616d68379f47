"""Settings of the service for batches."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from services.kit.dsn import Dsn
from services.kit.settings import ServiceSettings


class BatchesSettings(ServiceSettings):
    """Settings of the service for batches; every one is SIGNALBOX_<NAME> in the environment."""

    database_dsn: Dsn = Field(description="DSN of the platform database, which the runtime's migration prepares.")
    database_pool_size: int = Field(8, ge=2, le=100, description="Most connections to the platform database.")
    runtime_target: str = Field(min_length=1, description="gRPC target of the runtime, dns:///host:port or ipv4:….")
    caller_token_public_key_file: Path = Field(
        description="PEM public key (Ed25519) that verifies the gateway's word about who calls."
    )
    batch_token_private_key_file: Path = Field(
        description="PEM file of the Ed25519 key that signs the tokens by which runs of batches are made and read."
    )
    batch_share: int = Field(
        8, ge=1, le=1000, description="Most runs that a batch holds at once, those that await input among them."
    )
    batch_most_items: int = Field(20_000, ge=1, le=1_000_000, description="Most items of a batch.")
    batch_most_bytes: int = Field(
        256 * 1024 * 1024, ge=1024, le=16 * 1024**3, description="Most bytes of a batch's inputs together."
    )
    batch_most_item_bytes: int = Field(
        1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="Most bytes of one input."
    )
    batches_at_once: int = Field(
        16, ge=1, le=10_000, description="Most batches that one caller has under way, those being added to among them."
    )
    batch_life_hours: float = Field(
        168, gt=0, le=8760, description="Hours after its start, or creation, for which a batch acts for its caller."
    )
    batch_kept_hours: float = Field(
        720, gt=0, le=87_600, description="Hours after its end for which a batch and its results are kept."
    )
    batch_lease_s: float = Field(
        15, ge=1, le=600, description="Seconds after which a batch is taken over from a replica that is not heard of."
    )
    batches_paced: int = Field(64, ge=1, le=10_000, description="Most batches that one replica paces at once.")
