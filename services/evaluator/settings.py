"""Settings of the evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from services.kit.models.models_setting import Models
from services.kit.models.parameters import TOLD, ModelParameters, parameters_of, problems_of_models
from services.kit.models.prompt_files import TOLD as PROMPTS_TOLD
from services.kit.settings import OptionalFile, ServiceSettings


class EvaluatorSettings(ServiceSettings):
    """What the evaluator is told: the model that judges, and the key that vouches for runs."""

    run_token_public_key_file: Path = Field(description="PEM public key (Ed25519) that verifies run tokens.")
    evaluator_model: str = Field(min_length=1, description="Model that judges drafts which pass the mechanical checks.")
    model_base_url: str = Field(
        "https://api.openai.com/v1", pattern="^https?://", description="OpenAI-compatible endpoint of the model."
    )
    model_api_key: SecretStr = Field(SecretStr(""), description="Key of that endpoint.")
    models: Models = Field({}, description=TOLD)
    prompts_dir: OptionalFile = Field(None, description=PROMPTS_TOLD)
    model_timeout_s: float = Field(60.0, gt=0, le=600, description="Seconds that one model call may take.")
    model_retries: int = Field(1, ge=0, le=5, description="Repeats of a call after a transient failure.")
    model_max_tokens: int = Field(1024, ge=64, le=16384, description="Most tokens of the model's answer.")
    prompt_code_characters: int = Field(
        60_000, ge=1000, le=2_000_000, description="Most characters of code in a prompt; cited code goes first."
    )
    max_message_bytes: int = Field(
        32 * 1024 * 1024,
        ge=65536,
        le=256 * 1024 * 1024,
        description="Largest gRPC message accepted, in bytes; a request carries everything a run has read.",
    )

    @property
    def _otherwise(self) -> ModelParameters:
        return ModelParameters(model=self.evaluator_model, base_url=self.model_base_url, api_key=self.model_api_key)

    @property
    def model(self) -> ModelParameters:
        """The model that is asked, and with what."""
        return parameters_of("evaluator", self.models, self._otherwise)

    @model_validator(mode="after")
    def _model_is_usable(self) -> Self:
        if problems := problems_of_models(["evaluator"], self.models, self._otherwise):
            raise ValueError("; ".join(problems))
        return self
