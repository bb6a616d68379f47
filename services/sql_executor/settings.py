"""Settings of the SQL executor and of its provisioning command."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.kit.dsn import Dsn, check_dsn
from services.kit.settings import ENV_PREFIX, ServiceSettings
from services.sql_executor.callers import MIN_SECRET_LENGTH


class SqlExecutorSettings(ServiceSettings):
    """Settings of the SQL executor."""

    database_dsn: Dsn = Field(description="DSN of the user's database, as the policy's reader role.")
    sql_policy: Path = Field(description="Policy file (YAML): tables, owners, restrictions and limits.")
    caller_secret: SecretStr = Field(
        min_length=MIN_SECRET_LENGTH,
        description="Secret that signs the caller for each transaction; the one that `sql-policy apply` was given.",
    )
    run_token_public_key_file: Path = Field(description="PEM public key (Ed25519) that verifies run tokens.")
    pool_min_size: int = Field(1, ge=0, le=100, description="Connections kept open to the user's database.")
    pool_max_size: int = Field(8, ge=1, le=100, description="Most connections to the user's database at once.")
    pool_wait_s: float = Field(5.0, gt=0, le=60, description="Longest that a query waits for a connection.")
    queries_per_caller: int = Field(
        2, ge=1, le=100, description="Most queries of one caller at once, including those that outlast their timeout."
    )
    examples_dsn: Dsn = Field(
        SecretStr(""), description="DSN of the few-shot store, as a role that may read it; empty: no such tool."
    )
    embeddings_base_url: str = Field(
        "", description="OpenAI-compatible endpoint for embeddings; empty: text similarity."
    )
    embeddings_api_key: SecretStr = Field(SecretStr(""), description="Key of the embeddings endpoint.")
    embeddings_model: str = Field("e5-query", description="Model that embeds questions.")
    embeddings_timeout_s: float = Field(2.0, gt=0, le=60, description="Longest wait for an embedding.")
    text_rows: int = Field(50, ge=1, le=1000, description="Most rows in the text that the model reads.")


class ProvisioningSettings(BaseSettings):
    """Settings of `python -m services.sql_executor.provisioning`."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True)

    caller_secret: SecretStr | None = Field(None, description="Secret that signs the caller for each transaction.")
    reader_password: SecretStr | None = Field(
        None, description="Password to give the reader role; left alone when unset."
    )

    def secret(self) -> str | None:
        """Returns the caller secret, if given."""
        return self.caller_secret.get_secret_value() if self.caller_secret else None

    def password(self) -> str | None:
        """Returns the reader's password, if given."""
        return self.reader_password.get_secret_value() if self.reader_password else None


class ExampleLoadingSettings(BaseSettings):
    """Settings of `python -m services.sql_executor.load_examples`."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True)

    reader_password: SecretStr | None = Field(None, description="Password to give the role that looks examples up.")
    embeddings_base_url: str = Field("", description="OpenAI-compatible endpoint for embeddings; empty: none.")
    embeddings_api_key: SecretStr = Field(SecretStr(""), description="Key of the embeddings endpoint.")
    embeddings_model: str = Field("e5-passage", description="Model that embeds examples and notes.")
    embeddings_timeout_s: float = Field(60.0, gt=0, le=600, description="Longest wait for a batch of embeddings.")

    def password(self) -> str | None:
        """Returns the role's password, if given."""
        return self.reader_password.get_secret_value() if self.reader_password else None


def environment_dsn(name: str) -> str:
    """Returns the DSN in an environment variable that a command's argument names. Raises ValueError."""
    dsn = os.environ.get(name, "")
    if not dsn:
        raise ValueError(f"the environment variable {name} is not set; it must hold a DSN")
    try:
        return check_dsn(SecretStr(dsn)).get_secret_value()
    except ValueError as error:
        raise ValueError(f"what is in {name} {error}") from error
