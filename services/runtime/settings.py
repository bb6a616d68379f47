"""Settings of the runtime."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from services.kit.dsn import Dsn
from services.kit.settings import ServiceSettings
from services.runtime.engine.retention import RetentionPolicy


class MigrationSettings(ServiceSettings):
    """What a migration needs."""

    database_dsn: Dsn = Field(description="Platform database, postgresql://user:password@host:port/database.")


class RuntimeSettings(MigrationSettings):
    """What the runtime needs."""

    database_pool_size: int = Field(8, ge=2, le=200, description="Connections to the platform database.")
    database_prepare: bool = Field(
        True, description="Prepare statements; turn off behind a pooler in transaction mode such as pgbouncer."
    )
    liveness_dsn: Dsn | None = Field(
        None,
        description="Connection for the liveness lock, past any pooler; default: database_dsn.",
    )
    max_concurrent_runs: int = Field(64, ge=1, le=10_000, description="Runs that this replica executes at once.")
    caller_runs_at_once: int = Field(
        500, ge=0, le=1_000_000, description="Runs that one caller may have under way on all replicas; 0: no limit."
    )
    caller_runs_per_minute: int = Field(
        3000,
        ge=0,
        le=1_000_000,
        description="Runs that one caller may start a minute on all replicas; 0: no limit.",
    )
    lease_s: float = Field(15, ge=1, le=600, description="Seconds after which a silent replica loses its runs.")
    sweep_interval_s: float = Field(0.5, gt=0, le=60, description="Seconds between looks for runs to take over.")
    clock_tolerance_s: float = Field(
        5,
        ge=0,
        le=3600,
        description="Seconds that this replica's clock may differ from the database's before it takes no runs; 0: any.",
    )
    max_idle_claims: int = Field(
        10, ge=1, le=1000, description="Claims without a step between them, after which a run is given up as failed."
    )
    drain_s: float = Field(10, gt=0, le=300, description="Seconds that nodes in flight get to end on SIGTERM.")
    retention: dict[str, RetentionPolicy] = Field(
        {},
        description="JSON: how long ended runs are kept, by agent and `default`, such as "
        '{"default": {"history_minutes": 10, "checkpoint_days": 30, "event_days": 30, "run_days": 365, '
        '"decision_days": 365}}; 0 is for ever.',
    )
    retention_interval_s: float = Field(60, gt=0, le=86_400, description="Seconds between looks for what to prune.")
    retention_batch: int = Field(100, ge=1, le=10_000, description="Runs that one transaction of the pruner handles.")
    guard_target: str = Field(description="gRPC target of the guard.")
    sql_executor_target: str = Field(description="gRPC target of the SQL executor.")
    guard_timeout_s: float = Field(30, gt=0, le=300, description="Seconds that a screening may take.")
    code_executor_target: str = Field(
        "", description="gRPC target of the code executor; without it no agent that reads code is offered."
    )
    evaluator_target: str = Field(
        "", description="gRPC target of the evaluator; without it no agent that needs a judge is offered."
    )
    evaluator_timeout_s: float = Field(120, gt=0, le=600, description="Seconds that an evaluation may take.")
    tool_timeout_s: float = Field(60, gt=0, le=600, description="Seconds that a tool call may take.")
    run_token_private_key_file: Path = Field(description="PEM Ed25519 key that signs run tokens.")
    caller_token_public_key_file: Path = Field(description="PEM Ed25519 key that verifies the gateway's word.")
    model_base_url: str = Field(description="OpenAI-compatible endpoint of the models.")
    model_api_key: SecretStr = Field(SecretStr(""), description="Key of that endpoint.")
    model_timeout_s: float = Field(60, gt=0, le=600, description="Seconds that one model call may take.")
    model_retries: int = Field(2, ge=0, le=10, description="Repeats of a model call after 429, 5xx or a timeout.")
    agent_model: str = Field(description="Model that agents think with.")
    format_model: str = Field(description="Model that words answers.")
    triage_model: str = Field("", description="Model that triages a finding; default: agent_model.")
    research_model: str = Field("", description="Model that gathers code for a finding; default: agent_model.")
    analysis_model: str = Field("", description="Model that drafts verdicts on findings; default: agent_model.")
