"""The local platform that the command's settings describe."""

from __future__ import annotations

from dataclasses import replace

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.settings import CliSettings
from services.local.database import WORLD_GRAPH_POLICY
from services.local.topology import ModelEndpoint, StackOptions, UserDatabase


def stack_options(settings: CliSettings, **others: object) -> StackOptions:
    """Options of a platform with all its agents: from settings, and others as `StackOptions` names them.

    Raises CliError for settings that don't fit.
    """
    options = StackOptions(
        code_agents=True,
        graph_policy=WORLD_GRAPH_POLICY,
        platform_dsn=settings.database_dsn.get_secret_value(),
        user_database=user_database(settings),
        model=model_endpoint(settings),
        models=settings.models,
        model_keys=settings.model_keys,
        otlp_endpoint=settings.otlp_endpoint,
    )
    return replace(options, **others)  # type: ignore[arg-type]


def model_endpoint(settings: CliSettings) -> ModelEndpoint | None:
    """The endpoint to use instead of the offline model; None: use that one."""
    if not settings.openai_base_url:
        return None
    if not settings.agent_model:
        raise CliError(
            "OPENAI_BASE_URL is set, but not which model to use there",
            hint="set SIGNALBOX_AGENT_MODEL; SIGNALBOX_GUARD_MODEL, SIGNALBOX_FORMAT_MODEL and so on where they differ",
            code=ExitCode.USAGE,
        )
    return ModelEndpoint(
        base_url=settings.openai_base_url,
        api_key=settings.openai_api_key.get_secret_value(),
        guard_model=settings.guard_model or settings.agent_model,
        agent_model=settings.agent_model,
        format_model=settings.format_model or settings.agent_model,
        evaluator_model=settings.evaluator_model,
        models=settings.models_by_role,
    )


def user_database(settings: CliSettings) -> UserDatabase | None:
    """The database to ask instead of the demo world; None: use that one."""
    dsn = settings.user_database_dsn.get_secret_value()
    if not dsn:
        return None
    secret = settings.caller_secret.get_secret_value()
    if settings.sql_policy is None or not secret:
        raise CliError(
            "SIGNALBOX_USER_DATABASE_DSN is set, but not the policy that opens that database",
            hint="set SIGNALBOX_SQL_POLICY to its file and SIGNALBOX_CALLER_SECRET to the secret it was applied with",
            code=ExitCode.USAGE,
        )
    return UserDatabase(dsn, settings.sql_policy, secret, settings.examples_dsn.get_secret_value())
