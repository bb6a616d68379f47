"""Which services a local platform has, and what each is told about the others. Pure: no process is started here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from services.kit.models.parameters import answers_by_default
from services.kit.models.roles import DEFAULT_ROLE, ROLES
from services.local.keys import DEVELOPMENT_AUDIENCE, DEVELOPMENT_ISSUER, DevelopmentKeys
from services.local.ports import HeldPorts
from services.local.processes import Program
from services.local.settings import inherited_environment

OFFLINE_MODEL = "offline_model"
GUARD = "guard"
SQL_EXECUTOR = "sql_executor"
GRAPH_EXECUTOR = "graph_executor"
CODE_EXECUTOR = "code_executor"
MCP_EXECUTOR = "mcp_executor"
EVALUATOR = "evaluator"
RUNTIME = "runtime"
GATEWAY = "gateway"
HTTP_API = "http_api"
BATCHES = "batches"
GRAPH_URL_VARIABLE = "SIGNALBOX_GRAPH_URL"
EXECUTORS = (SQL_EXECUTOR, GRAPH_EXECUTOR, CODE_EXECUTOR, MCP_EXECUTOR)
SERVICES = (GATEWAY, HTTP_API, RUNTIME, BATCHES, GUARD, EVALUATOR, *EXECUTORS, OFFLINE_MODEL)


@dataclass(frozen=True)
class ModelEndpoint:
    """An OpenAI-compatible endpoint and the models to ask there.

    `models` are those of the agents' roles (`services/kit/models/roles.py`); a role without one has the agents' model.
    """

    base_url: str
    api_key: str = field(repr=False)
    guard_model: str = ""
    agent_model: str = ""
    format_model: str = ""
    evaluator_model: str = ""
    models: Mapping[str, Any] = field(default_factory=dict)

    def model_of(self, role: str) -> str:
        """Returns the model that agents have in a role; its parameters may say others for this endpoint."""
        named = {DEFAULT_ROLE: self.agent_model, "format": self.format_model, **self.models}
        given = named.get(role)
        name = given.get("model", "") if isinstance(given, Mapping) else given
        return str(name or self.agent_model)


@dataclass(frozen=True)
class UserDatabase:
    """A database to ask questions of, prepared by `signalbox sql-policy apply`; its examples may be in another.

    `vocabulary` tells the offline model what the words of its world mean.
    """

    reader_dsn: str = field(repr=False)
    sql_policy: Path
    caller_secret: str = field(repr=False)
    examples_dsn: str = field(default="", repr=False)
    vocabulary: Path | None = None


@dataclass(frozen=True)
class StackOptions:
    """What differs between local platforms.

    `postgres_dsn` is a superuser's URL of a cluster where the platform makes databases of its own and drops them at the
    end; empty: an embedded Postgres, kept in `data_dir` or gone at the end. `platform_dsn` and `user_database` name
    databases that exist: the first is only migrated, the second is taken as it is. `model` unset starts the offline
    model, but for the roles that `models` has others for; what asks models sees the variables `model_keys`.
    `code_agents` adds what the agents that read code need: an evaluator, and a code executor that may read the
    repositories under `code_roots` and no others. `graph_policy` adds a graph database, kept in `data_dir`, and a graph
    executor; on a machine that can't run the database the platform says so, and goes without. `batches` adds the
    service for batches, `mcp_servers`, a file of MCP servers, an executor of their tools, `http_replicas` replicas of
    the HTTP API, the first of which listens at `http_listen`. `service_env` adds settings to one service, by its name
    (`runtime` for all its replicas). `directory` is where keys and logs go; unset: a temporary one that is removed at
    the end. `base_env` is all that services see of the launcher's environment.
    """

    postgres_dsn: str = field(default="", repr=False)
    platform_dsn: str = field(default="", repr=False)
    user_database: UserDatabase | None = None
    data_dir: Path | None = None
    model: ModelEndpoint | None = None
    models: Mapping[str, Any] = field(default_factory=dict, repr=False)
    model_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    code_agents: bool = False
    code_roots: Sequence[Path] = ()
    graph_policy: Path | None = None
    mcp_servers: Path | None = None
    runtime_replicas: int = 1
    batches: bool = False
    gateway_listen: str = "127.0.0.1:0"
    http_replicas: int = 0
    http_listen: str = "127.0.0.1:0"
    otlp_endpoint: str = ""
    log_level: str = "INFO"
    directory: Path | None = None
    service_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    base_env: Mapping[str, str] = field(default_factory=inherited_environment)
    ready_timeout_s: float = 60.0
    shutdown_grace_s: float = 10.0


# An address to listen at that nobody can ask for.
_ALL_HOSTS = ("", "0.0.0.0", "[::]")  # noqa: S104 - to tell it from others


class Topology:
    """Makes the program of each service."""

    def __init__(self, options: StackOptions, keys: DevelopmentKeys) -> None:
        self._options = options
        self._keys = keys
        self._ports = HeldPorts()

    @cached_property
    def _http_address(self) -> str:
        """Where the first replica of the HTTP API listens, and where clients are told that tools of MCP are."""
        return self._ports.hold(self._options.http_listen)

    def offline_model(self, vocabulary: Path | None) -> Program:
        """The stand-in for a model, told what the words of a world mean."""
        env = {} if vocabulary is None else {"SIGNALBOX_VOCABULARY_FILE": str(vocabulary)}
        return self._service(OFFLINE_MODEL, env)

    def guard(self, model: ModelEndpoint, restricted_tables: Sequence[str], owner_columns: Sequence[str]) -> Program:
        """The guard, in front of a model and told what the SQL policy restricts, and which columns hold owners."""
        env = {
            "SIGNALBOX_RESTRICTED_TABLES": ",".join(restricted_tables),
            "SIGNALBOX_OWNER_COLUMNS": ",".join(owner_columns),
            "SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(self._keys.runs.public),
            **self._model_env(model),
            **_set_only({"SIGNALBOX_GUARD_MODEL": model.guard_model}),
        }
        return self._service(GUARD, env)

    def sql_executor(self, database: UserDatabase) -> Program:
        """The SQL executor, over the user's database."""
        env = {
            "SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(self._keys.runs.public),
            "SIGNALBOX_DATABASE_DSN": database.reader_dsn,
            "SIGNALBOX_SQL_POLICY": str(database.sql_policy),
            "SIGNALBOX_CALLER_SECRET": database.caller_secret,
            **_set_only({"SIGNALBOX_EXAMPLES_DSN": database.examples_dsn}),
        }
        return self._service(SQL_EXECUTOR, env)

    def graph_executor(self, url: str, policy: Path) -> Program:
        """The graph executor, over a graph database; every caller has a graph of their own."""
        env = {
            "SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(self._keys.runs.public),
            GRAPH_URL_VARIABLE: url,
            "SIGNALBOX_GRAPH_POLICY": str(policy),
            "SIGNALBOX_GRAPH_CLAIM": "sub",
            # Whoever supervises the platform starts it again.
            "SIGNALBOX_GRAPH_END_OVERDUE": "true",
        }
        return self._service(GRAPH_EXECUTOR, env)

    def code_executor(self, cache: Path) -> Program:
        """The code executor, over the repositories that the options allow."""
        env = {
            "SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(self._keys.runs.public),
            "SIGNALBOX_CODE_CACHE_DIR": str(cache),
            "SIGNALBOX_CODE_LOCAL_ROOTS": json.dumps([str(root.absolute()) for root in self._options.code_roots]),
        }
        return self._service(CODE_EXECUTOR, env)

    def mcp_executor(self, servers: Path) -> Program:
        """The MCP executor, over the servers of a file."""
        env = {
            "SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(self._keys.runs.public),
            "SIGNALBOX_MCP_SERVERS": str(servers),
        }
        return self._service(MCP_EXECUTOR, env)

    def evaluator(self, model: ModelEndpoint) -> Program:
        """The evaluator, in front of a model."""
        env = {
            "SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(self._keys.runs.public),
            "SIGNALBOX_EVALUATOR_MODEL": model.evaluator_model or model.agent_model,
            **self._model_env(model),
        }
        return self._service(EVALUATOR, env)

    def runtime(
        self,
        number: int,
        model: ModelEndpoint,
        *,
        dsn: str,
        guard: str,
        sql_executor: str,
        code_executor: str = "",
        evaluator: str = "",
        graph_executor: str = "",
        mcp_executor: str = "",
    ) -> Program:
        """One replica of the runtime, counted from 1; with more executors and an evaluator it offers more agents."""
        env = {
            "SIGNALBOX_DATABASE_DSN": dsn,
            "SIGNALBOX_GUARD_TARGET": target([guard]),
            "SIGNALBOX_SQL_EXECUTOR_TARGET": target([sql_executor]),
            "SIGNALBOX_RUN_TOKEN_PRIVATE_KEY_FILE": str(self._keys.runs.private),
            "SIGNALBOX_CALLER_TOKEN_PUBLIC_KEY_FILE": str(self._keys.gateway.public),
            "SIGNALBOX_BATCH_TOKEN_PUBLIC_KEY_FILE": str(self._keys.batches.public),
            **self._model_env(model),
            **_set_only(
                {
                    "SIGNALBOX_CODE_EXECUTOR_TARGET": target([code_executor]) if code_executor else "",
                    "SIGNALBOX_EVALUATOR_TARGET": target([evaluator]) if evaluator else "",
                    "SIGNALBOX_MCP_EXECUTOR_TARGET": target([mcp_executor]) if mcp_executor else "",
                    "SIGNALBOX_GRAPH_EXECUTOR_TARGET": target([graph_executor]) if graph_executor else "",
                    "SIGNALBOX_AGENT_MODEL": model.agent_model,
                    "SIGNALBOX_FORMAT_MODEL": model.format_model,
                }
            ),
        }
        return self._service(RUNTIME, env, name=replica_name(number))

    def migration_env(self, dsn: str) -> dict[str, str]:
        """How the migration gets to the platform's database: as the runtime does, past any pooler."""
        direct = self._options.service_env.get(RUNTIME, {}).get("SIGNALBOX_DIRECT_DSN", "")
        return {"SIGNALBOX_DATABASE_DSN": dsn, **_set_only({"SIGNALBOX_DIRECT_DSN": direct})}

    def batches(self, dsn: str, runtimes: Sequence[str]) -> Program:
        """The service for batches, in front of every replica of the runtime."""
        env = {
            "SIGNALBOX_DATABASE_DSN": dsn,
            "SIGNALBOX_RUNTIME_TARGET": target(runtimes),
            "SIGNALBOX_CALLER_TOKEN_PUBLIC_KEY_FILE": str(self._keys.gateway.public),
            "SIGNALBOX_BATCH_TOKEN_PRIVATE_KEY_FILE": str(self._keys.batches.private),
        }
        return self._service(BATCHES, env)

    def gateway(self, runtimes: Sequence[str], batches: str = "") -> Program:
        """The gateway, in front of every replica of the runtime, and of the service for batches where there is one."""
        env = {
            "SIGNALBOX_LISTEN": self._options.gateway_listen,
            "SIGNALBOX_RUNTIME_TARGET": target(runtimes),
            **_set_only({"SIGNALBOX_BATCHES_TARGET": target([batches]) if batches else ""}),
            "SIGNALBOX_CALLER_TOKEN_PRIVATE_KEY_FILE": str(self._keys.gateway.private),
            "SIGNALBOX_JWKS_FILE": str(self._keys.jwks),
            "SIGNALBOX_JWT_ISSUER": DEVELOPMENT_ISSUER,
            "SIGNALBOX_JWT_AUDIENCE": DEVELOPMENT_AUDIENCE,
        }
        return self._service(GATEWAY, env)

    def http_api(self, number: int, gateway: str) -> Program:
        """One replica of the HTTP API, counted from 1."""
        host, _, port = self._http_address.rpartition(":")
        env = {
            "SIGNALBOX_LISTEN": self._http_address if number == 1 else "127.0.0.1:0",
            "SIGNALBOX_GATEWAY_TARGET": target([gateway]),
            "SIGNALBOX_MCP_URL": f"http://{'127.0.0.1' if host in _ALL_HOSTS else host}:{port}/mcp",
        }
        return self._service(HTTP_API, env, name=numbered(HTTP_API, number))

    def step(self, name: str, arguments: Sequence[str], env: Mapping[str, str]) -> Program:
        """A program that prepares something and ends."""
        return Program(name, ["-P", "-m", *arguments], {**self._options.base_env, **env})

    def _model_env(self, model: ModelEndpoint) -> dict[str, str]:
        """How a service gets to its models; each takes those of its roles."""
        by_role = _set_only({"SIGNALBOX_MODELS": json.dumps(dict(model.models)) if model.models else ""})
        endpoint = {"SIGNALBOX_MODEL_BASE_URL": model.base_url, "SIGNALBOX_MODEL_API_KEY": model.api_key}
        return {**self._options.model_keys, **endpoint, **by_role}

    def _service(self, service: str, env: Mapping[str, str], *, name: str = "") -> Program:
        options = self._options
        common = {
            "SIGNALBOX_LOG_LEVEL": options.log_level,
            "SIGNALBOX_SHUTDOWN_GRACE_S": f"{options.shutdown_grace_s:g}",
            **_set_only({"SIGNALBOX_OTLP_ENDPOINT": options.otlp_endpoint}),
        }
        # Of the service, and of one replica of it by its name.
        given = options.service_env
        extra = {**given.get(service, {}), **(given.get(name, {}) if name else {})}
        # -P: a directory named `services` where the command is called must not hide the real one.
        return Program(
            name or service, ["-P", "-m", f"services.{service}"], {**options.base_env, **common, **env, **extra}
        )


def offline_endpoint(address: str, others: Mapping[str, Any] | None = None) -> ModelEndpoint:
    """The offline model as a model endpoint, but for roles that have others; the client library wants some key."""
    given = others or {}
    # Where somebody else answers by default, the offline model's names mean nothing.
    roles = () if answers_by_default(given) else ROLES
    return ModelEndpoint(
        base_url=f"http://{address}/v1",
        api_key="offline",
        guard_model="signalbox-offline-guard",
        agent_model="signalbox-offline-agent",
        format_model="signalbox-offline-format",
        evaluator_model="signalbox-offline-evaluator",
        models={**{role: f"signalbox-offline-{role}" for role in roles}, **given},
    )


def graph_of(subject: str) -> str:
    """Name of a caller's graph, as the graph executor has it from the claim `sub`."""
    return f"signalbox:{quote(subject, safe='')}"


def replica_name(number: int) -> str:
    """Name of a replica of the runtime: `runtime`, `runtime-2`, `runtime-3`."""
    return numbered(RUNTIME, number)


def numbered(service: str, number: int) -> str:
    """Name of a replica of a service, counted from 1."""
    return service if number == 1 else f"{service}-{number}"


def target(addresses: Sequence[str]) -> str:
    """The gRPC target of a service with these addresses."""
    return "ipv4:" + ",".join(addresses)


def _set_only(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if value}
