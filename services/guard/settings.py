"""Settings of the guard."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from services.kit.models.models_setting import Models
from services.kit.models.parameters import TOLD, ModelParameters, parameters_of, problems_of_models
from services.kit.models.prompt_files import TOLD as PROMPTS_TOLD
from services.kit.settings import OptionalFile, ServiceSettings


def _split(value: Any) -> Any:
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not all(part.replace("_", "").isalnum() for part in re.split("[ .$-]", name)):
            raise ValueError(f"{name!r} is not a name: letters, digits, underscores, with or without a schema")
    # A question names a table without its schema, and a column without its table.
    return tuple(name.rpartition(".")[2] for name in names)


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split), AfterValidator(_check_names)]


class GuardSettings(ServiceSettings):
    """What the guard is told: the tables that are off limits, the model it asks, the key that vouches for callers."""

    restricted_tables: Names = Field(
        ("admin", "user_device_assignment"),
        description="Tables nobody may ask about, as the SQL policy restricts them, separated by commas.",
    )
    owner_columns: Names = Field(
        ("user_id",),
        description="Columns that hold the owners of rows, as the SQL policy names them, separated by commas.",
    )
    run_token_public_key_file: Path = Field(description="PEM public key (Ed25519) that verifies run tokens.")
    guard_model: str = Field(min_length=1, description="Model that screens what the deterministic checks let pass.")
    model_base_url: str = Field(
        "https://api.openai.com/v1", pattern="^https?://", description="OpenAI-compatible endpoint of the model."
    )
    model_api_key: SecretStr = Field(SecretStr(""), description="Key of that endpoint.")
    models: Models = Field({}, description=TOLD)
    prompts_dir: OptionalFile = Field(None, description=PROMPTS_TOLD)
    model_timeout_s: float = Field(
        10.0,
        gt=0,
        le=600,
        description="Seconds that the model may take, retries included; then there is no verdict, and the run waits or "
        "fails. Less than the runtime's guard_timeout_s.",
    )
    model_retries: int = Field(
        1,
        ge=0,
        le=5,
        description="Repeats after a transient failure, or what is not a verdict, within the same timeout.",
    )
    model_max_tokens: int = Field(
        1024,
        ge=1,
        le=65_536,
        description="Most tokens of the model's answer. One word is wanted; a model that reasons first needs more.",
    )

    @property
    def _otherwise(self) -> ModelParameters:
        return ModelParameters(model=self.guard_model, base_url=self.model_base_url, api_key=self.model_api_key)

    @property
    def model(self) -> ModelParameters:
        """The model that is asked, and with what."""
        return parameters_of("guard", self.models, self._otherwise)

    @model_validator(mode="after")
    def _model_is_usable(self) -> Self:
        if problems := problems_of_models(["guard"], self.models, self._otherwise):
            raise ValueError("; ".join(problems))
        return self
