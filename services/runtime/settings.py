"""Settings of the runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AliasChoices, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from services.kit.dsn import Dsn
from services.kit.models.models_setting import Models
from services.kit.models.parameters import TOLD, ModelParameters, parameters_of, problems_of_models
from services.kit.models.prompt_files import TOLD as PROMPTS_TOLD
from services.kit.settings import OptionalFile, ServiceSettings
from services.runtime.calls.model_price import ModelPrice
from services.runtime.calls.peers import Peer
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.store_policy import StorePolicy

POOLER_IN_THE_WAY = (
    "SIGNALBOX_DATABASE_DSN leads through a pooler, whose sessions are shared: set SIGNALBOX_DIRECT_DSN to a DSN of "
    "the same database past it, or to one whose sessions last as long as connections, as in session mode"
)

RUNTIME = "runtime"
# What the platform's own agents can't be without.
_OF_AGENTS = (
    "guard_target",
    "sql_executor_target",
    "model_base_url",
    "agent_model",
    "format_model",
    "run_token_private_key_file",
)


def _split(value: Any) -> Any:
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


class MigrationSettings(ServiceSettings):
    """What a migration needs."""

    database_dsn: Dsn = Field(description="Platform database, postgresql://user:password@host:port/database.")
    direct_dsn: Dsn | None = Field(
        None,
        validation_alias=AliasChoices("SIGNALBOX_DIRECT_DSN", "SIGNALBOX_LIVENESS_DSN"),
        description="The same database past any pooler, for what needs a session of its own: the migration's lock, and "
        "each replica's. SIGNALBOX_LIVENESS_DSN is its former name. Default: database_dsn.",
    )

    @property
    def session_dsn(self) -> str:
        """Where a session is one's own."""
        return (self.direct_dsn or self.database_dsn).get_secret_value()


class FolderSettings(ServiceSettings):
    """Where graphs of teams are."""

    agent_folders: Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_split)] = Field(
        (),
        description="Folders with a `langgraph.json`, separated by commas, whose graphs are offered as agents; beside "
        "them those of installed packages' entry points `signalbox.agents`. Their code runs in this process.",
    )


class PolicySettings(MigrationSettings, FolderSettings):
    """What a look at the database's unfinished runs needs, under the limits of agents."""

    policy_file: OptionalFile = Field(
        None,
        description="YAML: limits of agents by agent and name, such as `data_chat: {max_iterations: 5}`, for runs that "
        "are claimed first from now on; `signalbox policies` lists them all. Unset: those that are built in.",
    )
    policies: dict[str, Any] = Field(
        {}, description="JSON: the same, where a file can't be mounted; not together with one."
    )


class CallSettings(ServiceSettings):
    """What nodes call, and how patiently: services and models."""

    guard_target: str = Field("", description="gRPC target of the guard.")
    sql_executor_target: str = Field("", description="gRPC target of the SQL executor.")
    guard_timeout_s: float = Field(
        30,
        gt=0,
        le=600,
        description="Seconds that a screening may take. More than the guard's own model_timeout_s.",
    )
    code_executor_target: str = Field(
        "", description="gRPC target of the code executor; without it no agent that reads code is offered."
    )
    graph_executor_target: str = Field(
        "", description="gRPC target of the graph executor; without it no agent that edits a graph is offered."
    )
    mcp_executor_target: str = Field(
        "", description="gRPC target of the MCP executor; without it graphs have no tools of MCP servers."
    )
    evaluator_target: str = Field(
        "", description="gRPC target of the evaluator; without it no agent that needs a judge is offered."
    )
    evaluator_timeout_s: float = Field(120, gt=0, le=600, description="Seconds that an evaluation may take.")
    tool_timeout_s: float = Field(60, gt=0, le=600, description="Seconds that a tool call may take.")
    model_base_url: str = Field("", description="OpenAI-compatible endpoint of the models.")
    model_api_key: SecretStr = Field(SecretStr(""), description="Key of that endpoint.")
    model_timeout_s: float = Field(60, gt=0, le=600, description="Seconds that one model call may take.")
    model_retries: int = Field(2, ge=0, le=10, description="Repeats of a model call after 429, 5xx or a timeout.")
    agent_model: str = Field("", description="Model that agents think with.")
    format_model: str = Field("", description="Model that writes answers.")
    triage_model: str = Field("", description="Model that triages a finding; default: agent_model.")
    research_model: str = Field("", description="Model that gathers code for a finding; default: agent_model.")
    analysis_model: str = Field("", description="Model that drafts verdicts on findings; default: agent_model.")
    parse_model: str = Field("", description="Model that reads goals for a graph; default: agent_model.")
    plan_model: str = Field("", description="Model that plans operations on a graph; default: agent_model.")
    answer_model: str = Field("", description="Model that describes what was found in a graph; default: agent_model.")
    calibrated_models: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (),
        description="Models, separated by commas, whose confidence in verdicts was measured, and is close to how often "
        "they are right. The confidence of a verdict is given only when the model that drafted it and the one that "
        "judged it, as its endpoint names it, are both among them.",
    )
    models: Models = Field({}, description=TOLD)
    prompts_dir: OptionalFile = Field(None, description=PROMPTS_TOLD)

    def target_of(self, peer: Peer) -> str:
        """Returns the gRPC target of a service; empty when it is not there."""
        return str(getattr(self, f"{peer.name}_target", ""))

    def model_of(self, role: str) -> ModelParameters:
        """Returns the model that agents have in a role, and what it is asked with. Raises ValidationError."""
        return parameters_of(role, self.models, self._otherwise(role))

    def problems_of_model(self, role: str) -> list[str]:
        """Returns what is wrong with the model of a role."""
        return problems_of_models([role], self.models, self._otherwise(role))

    def _otherwise(self, role: str) -> ModelParameters:
        model = getattr(self, f"{role}_model", "") or self.agent_model
        return ModelParameters(model=model, base_url=self.model_base_url, api_key=self.model_api_key)


class RuntimeSettings(CallSettings, PolicySettings):
    """What the runtime needs; a pool, which offers hosted graphs only, less of it."""

    pool: str = Field(
        RUNTIME,
        pattern="^[a-z][a-z0-9-]{0,39}$",
        description="Name of the pool that this replica is one of. Any but `runtime` offers hosted graphs only, and "
        "needs no guard, executor, model or key for run tokens. A hosted graph's name is one pool's.",
    )
    pool_succeeds: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (),
        description="Pools, separated by commas, in whose place this one offers graphs of theirs, with the runs that "
        "have not ended: of a pool that was renamed, or given up.",
    )
    release_revision: int = Field(
        0,
        ge=0,
        le=2**63 - 1,
        description="Revision of the deployment, as Helm counts them, for the record of what changed agents' limits; "
        "0: unknown.",
    )
    changed_by: str = Field(
        "",
        max_length=200,
        description="Who made this deployment what it is, for the same record; empty: unknown.",
    )
    change_reason: str = Field("", max_length=1000, description="Why, for the same record; empty: unknown.")
    sync_node_threads: int = Field(
        64, ge=1, le=1000, description="Threads for nodes of hosted graphs that are no coroutines."
    )
    shadow_policies: dict[str, Any] = Field(
        {},
        description="JSON: limits by agent and name that are tried in shadow. What is decided is decided once more "
        "under them, to no effect; `signalbox_shadow_decisions_total` tells how often they lead elsewhere.",
    )
    database_pool_size: int = Field(
        16,
        ge=2,
        le=200,
        description="Connections to the platform database: a quarter for callers, two for claims and leases, the rest "
        "for the steps of runs; one more is the liveness lock's.",
    )
    database_prepare: bool = Field(
        True,
        description="Prepare statements, and set limits on sessions. Where database_dsn is seen to lead through a "
        "pooler, neither is done; turn it off where that can't be seen.",
    )
    max_concurrent_runs: int = Field(
        256,
        ge=1,
        le=10_000,
        description="Runs that this replica executes at once: runs a second times seconds a run takes.",
    )
    max_pending_runs: int = Field(
        50_000,
        ge=0,
        le=10_000_000,
        description="Runs that may wait for a replica, on all of them together, before more are refused; 0: no limit.",
    )
    max_waiting_calls: int = Field(
        1000,
        ge=0,
        le=1_000_000,
        description="Calls that may wait for the platform database on this replica before more are refused; "
        "0: no limit.",
    )
    caller_runs_at_once: int = Field(
        500, ge=0, le=1_000_000, description="Runs that one caller may have under way on all replicas; 0: no limit."
    )
    caller_runs_per_minute: int = Field(
        3000,
        ge=0,
        le=1_000_000,
        description="Runs that one caller may start a minute on all replicas; 0: no limit.",
    )
    caller_tokens_per_day: int = Field(
        0,
        ge=0,
        le=1_000_000_000_000,
        description="Tokens that one caller's runs may spend a day (UTC) on all replicas before no more are started; "
        "0: no limit.",
    )
    caller_runs_waiting: int = Field(
        1000,
        ge=0,
        le=1_000_000,
        description="Runs of one caller that may wait for people, on all replicas, before no more are started; "
        "0: no limit. They are none of those under way.",
    )
    record_runs: bool = Field(
        False,
        description="Keep what the nodes of every run, but one that goes on from a fork, ask models and services, and "
        "hear from these and from people beside it, as callers may ask of single ones; as personal as the runs "
        "themselves, and gone with them.",
    )
    lease_s: float = Field(15, ge=1, le=600, description="Seconds after which a silent replica loses its runs.")
    sweep_interval_s: float = Field(
        0.5,
        gt=0,
        le=60,
        description="Seconds between looks for runs to take over; four times that while the platform has none to do.",
    )
    clock_tolerance_s: float = Field(
        5,
        ge=0,
        le=3600,
        description="Seconds that this replica's clock may differ from the database's before it takes no runs; 0: any.",
    )
    max_idle_claims: int = Field(
        3,
        ge=1,
        le=1000,
        description="Claims of a run that end with the death of their replica, and no step between them, after which "
        "it is run alone; when its replica dies then too, it is given up as failed.",
    )
    drain_s: float = Field(10, gt=0, le=300, description="Seconds that nodes in flight get to end on SIGTERM.")
    retention: dict[str, RetentionPolicy] = Field(
        {},
        description="JSON: how long ended runs are kept, by agent and `default`, such as "
        '{"default": {"history_minutes": 10, "checkpoint_days": 30, "event_days": 30, "run_days": 365, '
        '"decision_days": 365}}; 0 is for ever.',
    )
    stores: dict[str, StorePolicy] = Field(
        {},
        description="JSON: whose store a hosted graph's runs have and how much it may hold, by agent and `default`, "
        'such as {"default": {"scope": "caller", "most_items": 10000, "most_value_bytes": 65536, '
        '"most_vectors": 20000, "most_writes": 1000, "days": 365}}; a scope is `caller`, `thread` or `agent`. '
        "`callers` of `default` is what callers may do with their own outside of runs: `write`, `read` or `nothing`.",
    )
    retention_interval_s: float = Field(60, gt=0, le=86_400, description="Seconds between looks for what to prune.")
    retention_batch: int = Field(100, ge=1, le=10_000, description="Runs that one transaction of the pruner handles.")
    run_token_private_key_file: OptionalFile = Field(None, description="PEM Ed25519 key that signs run tokens.")
    run_token_ttl_s: int = Field(
        300,
        ge=120,
        le=600,
        description="Seconds that a run token is good for; renewed every minute while the run is claimed.",
    )
    caller_token_public_key_file: Path = Field(description="PEM Ed25519 key that verifies the gateway's word.")
    batch_token_public_key_file: OptionalFile = Field(
        None, description="PEM Ed25519 key that verifies the tokens of the service for batches, where there is one."
    )
    model_prices: dict[str, ModelPrice] = Field(
        {},
        description="JSON: what a million tokens cost, by model, in one currency, such as "
        '{"some-model": {"input": 0.25, "cached": 0.025, "output": 2}}; without `cached`, input that the endpoint '
        "had cached costs as other input. Costs are estimated by it; a model that is not in it has no price.",
    )
    price_currency: str = Field(
        "", pattern="^([A-Z]{3})?$", description="Currency of these prices as people are shown it, such as EUR."
    )

    @property
    def is_pool(self) -> bool:
        """Whether it offers hosted graphs only."""
        return self.pool != RUNTIME

    def name_of(self, service: str) -> str:
        """Returns what this process is called: pools are told apart from the platform's own replicas."""
        return f"{service}-{self.pool}" if self.is_pool else service

    @model_validator(mode="after")
    def _agents_have_what_they_need(self) -> Self:
        missing = [f"SIGNALBOX_{name.upper()}" for name in _OF_AGENTS if not getattr(self, name)]
        if missing and not self.is_pool:
            raise ValueError(f"{', '.join(missing)} must be set; only a pool (SIGNALBOX_POOL) needs none of them")
        return self
