"""Settings of the `signalbox` command: the only reader of its environment."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.kit.models.models_setting import GivenModels
from services.kit.models.parameters import answers_by_default
from services.kit.models.roles import ROLES
from services.kit.settings import OptionalFile
from services.local.settings import inherited_environment

PROMPTS_DIR = "SIGNALBOX_PROMPTS_DIR"
_OF_MODELS = re.compile(f"SIGNALBOX_(MODELS|MODEL_[A-Z_]+|[A-Z]+_MODEL)|{PROMPTS_DIR}")


def default_runtime_dir() -> Path:
    """Where `signalbox up` leaves word of itself: a directory of this user's own."""
    home = os.environ.get("XDG_RUNTIME_DIR", "")
    if home and Path(home).is_dir():
        return Path(home) / "signalbox"
    return Path(tempfile.gettempdir()) / f"signalbox-{os.getuid()}"


def default_config_dir() -> Path:
    """Where what this user wants kept is: a directory of theirs."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if home else Path.home() / ".config") / "signalbox"


class CliSettings(BaseSettings):
    """What the command is told by the environment; options of a command go before it."""

    model_config = SettingsConfigDict(env_prefix="SIGNALBOX_", frozen=True, extra="ignore", hide_input_in_errors=True)

    gateway: str = Field("", description="Address of the gateway, host:port; empty: the one that `signalbox up` runs.")
    token: SecretStr = Field(SecretStr(""), description="Caller's token; empty: a development token is made.")
    gateway_ca: OptionalFile = Field(None, description="PEM certificates that sign the gateway's; unset: no TLS.")
    tls_cert: OptionalFile = Field(None, description="PEM certificate to show to the gateway, with tls_key.")
    tls_key: OptionalFile = Field(None, description="PEM private key of that certificate.")
    runtime_dir: Path = Field(
        default_factory=default_runtime_dir,
        description="Directory where `signalbox up` keeps its endpoint file and logs.",
    )
    database_dsn: SecretStr = Field(
        SecretStr(""), description="URL of the platform's database for `up`; empty: an embedded Postgres."
    )
    user_database_dsn: SecretStr = Field(
        SecretStr(""), description="URL of the database to ask, as the policy's reader; empty: the demo world."
    )
    sql_policy: OptionalFile = Field(None, description="Policy file of that database; needed with user_database_dsn.")
    caller_secret: SecretStr = Field(
        SecretStr(""), description="Secret that `sql-policy apply` was given; needed with user_database_dsn."
    )
    examples_dsn: SecretStr = Field(
        SecretStr(""), description="URL of its few-shot store, as a role that may read it; empty: no examples."
    )
    otlp_endpoint: str = Field("", description="OTLP/gRPC endpoint that the services of `up` send traces to.")
    openai_base_url: str = Field(
        "", validation_alias="OPENAI_BASE_URL", description="OpenAI-compatible endpoint; empty: the offline model."
    )
    openai_api_key: SecretStr = Field(
        SecretStr(""), validation_alias="OPENAI_API_KEY", description="Key of that endpoint."
    )
    guard_model: str = Field("", description="Model of the guard at that endpoint.")
    agent_model: str = Field("", description="Model that agents think with at that endpoint.")
    format_model: str = Field("", description="Model that words answers at that endpoint.")
    evaluator_model: str = Field("", description="Model that judges verdicts on findings at that endpoint.")
    models: GivenModels = Field(
        {},
        description='JSON, or the path of a YAML file: models by role, such as {"triage": "large"}, with parameters as '
        "docs/models.md has them; SIGNALBOX_<ROLE>_MODEL names that of one role.",
    )

    @property
    def models_by_role(self) -> dict[str, Any]:
        """The models of single roles, or their parameters: by variables of their own, and those of `models` before.

        What `models` says of all roles goes before those variables, as it does in the services.
        """
        roles = () if answers_by_default(self.models) else ROLES
        named = {role: os.environ.get(f"SIGNALBOX_{role.upper()}_MODEL", "") for role in roles}
        return {role: model for role, model in (named | self.models).items() if model}

    @property
    def model_keys(self) -> dict[str, str]:
        """The variables that `models` names as those that have keys."""
        return {name: os.environ[name] for name in _key_variables(self.models) if name in os.environ}


def _key_variables(given: Any) -> Iterator[str]:
    if isinstance(given, Mapping):
        if isinstance(name := given.get("api_key_env"), str):
            yield name
        given = list(given.values())
    for each in given if isinstance(given, list) else ():
        yield from _key_variables(each)


def provisioning_environment(dsn_variable: str) -> dict[str, str]:
    """What `sql-policy` sees of the environment: the DSN, the secret and the password it was given there."""
    given = (dsn_variable, "SIGNALBOX_CALLER_SECRET", "SIGNALBOX_READER_PASSWORD")
    return inherited_environment() | {name: os.environ[name] for name in given if name in os.environ}


def replay_environment(*, asks_models: bool) -> dict[str, str]:
    """What a replay sees of the environment: where prompts are, and, where it asks models, all that is said of them.

    Providers' keys and regions are in variables of any name.
    """
    if not asks_models:
        return {PROMPTS_DIR: os.environ[PROMPTS_DIR]} if PROMPTS_DIR in os.environ else {}
    return {
        name: value
        for name, value in os.environ.items()
        if _OF_MODELS.fullmatch(name) or not name.startswith("SIGNALBOX_")
    }
