"""Settings of the guard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode, SettingsConfigDict

from services.kit.settings import ServiceSettings


def _split(value: Any) -> Any:
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not name.replace("_", "").isalnum():
            raise ValueError(f"{name!r} is no table name: letters, digits and underscores only, without a schema")
    return names


TableNames = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split), AfterValidator(_check_names)]


class GuardSettings(ServiceSettings):
    """What the guard is told: the tables that are off limits, the model it asks, the key that vouches for callers."""

    model_config = SettingsConfigDict(populate_by_name=True)

    restricted_tables: TableNames = Field(
        ("admin", "user_device_assignment"), description="Tables nobody may ask about, by name, parted by commas."
    )
    run_token_public_key_file: Path = Field(description="PEM public key (Ed25519) that verifies run tokens.")
    guard_model: str = Field(min_length=1, description="Model that screens what the deterministic checks let pass.")
    openai_base_url: str = Field(
        "https://api.openai.com/v1",
        validation_alias="OPENAI_BASE_URL",
        pattern="^https?://",
        description="OpenAI-compatible endpoint of the model (OPENAI_BASE_URL).",
    )
    openai_api_key: SecretStr = Field(
        SecretStr(""), validation_alias="OPENAI_API_KEY", description="Key of that endpoint (OPENAI_API_KEY)."
    )
    model_timeout_s: float = Field(
        10.0,
        gt=0,
        le=120,
        description="Seconds that the model may take, retries included; then the question is blocked.",
    )
    model_retries: int = Field(1, ge=0, le=5, description="Repeats after a transient failure, within the same timeout.")
    model_max_tokens: int = Field(
        16, ge=1, le=4096, description="Most tokens of the model's answer; one word is wanted."
    )
