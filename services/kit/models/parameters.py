"""What a model is asked with in each role: where, as whom, with which parameters, and who is asked where it fails."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from errno import ENOENT
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from services.kit.models.provider_packages import missing_for
from services.kit.text.problems import problems_of

DEFAULT: Final = "default"
TOLD: Final = (
    "JSON, or the path of a YAML file: by role, and by `default` for all others, a model's name or its parameters "
    '(docs/models.md), such as {"default": {"reasoning_effort": "low"}, "plan": {"model": "o3", "temperature": null}}; '
    "before all other settings."
)
Failure = Literal["away", "refused", "unusable"]


class OneModel(BaseModel):
    """One model of one endpoint, and what it takes; what is not given is as the service's other settings say."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    model: str = Field("", max_length=500, description="Name at its endpoint.")
    provider: str = Field(
        "",
        pattern="^[a-z_]*$",
        description="LangChain's name of a provider, as `init_chat_model` takes it, such as anthropic; empty: the "
        "endpoint is OpenAI-compatible.",
    )
    base_url: str = Field("", pattern="^(https?://.*)?$", description="Endpoint, without /chat/completions.")
    api_key: SecretStr | None = Field(None, description="Key of the endpoint; goes to no other one.")
    api_key_file: Path | None = Field(None, description="File with the key, such as a mounted Secret.")
    api_key_env: str = Field("", pattern="^[A-Za-z0-9_]*$", description="Environment variable with the key.")
    key_header: str = Field("Authorization", description="Header of the key; Azure has api-key.")
    query: dict[str, str] = Field({}, description="Added to the URL, such as Azure's api-version.")
    temperature: float | None = Field(0, ge=0, le=2, description="Temperature; null sends none.")
    max_tokens: int | None = Field(None, ge=1, description="Most tokens of an answer; null: as the service has it.")
    max_tokens_as: Literal["max_tokens", "max_completion_tokens", ""] = Field(
        "max_tokens", description="Name of that parameter; empty sends none."
    )
    reasoning_effort: str = Field("", max_length=20, description="Such as low; empty sends none.")
    extra_body: dict[str, Any] = Field({}, description="Further parameters, as they are.")
    prompt_cache: Literal["", "key", "breakpoint"] = Field(
        "", description="Cache hint: key sends prompt_cache_key, breakpoint marks the system message as Anthropic does."
    )
    options: dict[str, Any] = Field({}, description="Of a provider's class, such as region_name of Bedrock.")
    timeout_s: float | None = Field(None, gt=0, le=600, description="Seconds for a call, its repeats included.")
    retries: int | None = Field(None, ge=0, le=10, description="Repeats after what fails in passing.")

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if sum((self.api_key is not None, self.api_key_file is not None, bool(self.api_key_env))) > 1:
            raise ValueError("of api_key, api_key_file and api_key_env one can be given")
        return self

    @property
    def key(self) -> str:
        """The endpoint's key; empty without one. Raises OSError for a file or a variable that can't be read."""
        if self.api_key_file is not None:
            return self.api_key_file.read_text(encoding="utf-8").strip()
        if self.api_key_env:
            if not (key := os.environ.get(self.api_key_env, "")):
                raise FileNotFoundError(ENOENT, "there is no such environment variable", self.api_key_env)
            return key
        return self.api_key.get_secret_value() if self.api_key is not None else ""

    def request(self, payload: Mapping[str, Any], purpose: str = "") -> dict[str, Any]:
        """Returns a request with this model's name and parameters in the place of whatever it came with."""
        asked = {name: value for name, value in payload.items() if name not in _OURS}
        limit = self.max_tokens or payload.get("max_tokens") or payload.get("max_completion_tokens")
        own: dict[str, Any] = {
            "model": self.model,
            "temperature": self.temperature,
            "reasoning_effort": self.reasoning_effort or None,
            "prompt_cache_key": f"signalbox-{purpose}" if self.prompt_cache == "key" else None,
        }
        if self.max_tokens_as:
            own[self.max_tokens_as] = limit
        return {**asked, **{name: value for name, value in own.items() if value is not None}, **self.extra_body}


class ModelParameters(OneModel):
    """A role's model, and those that are asked where it fails."""

    fallback_after: tuple[Failure, ...] = Field(
        ("away",), description="Failures after which the next model is asked: away, refused, unusable."
    )
    fallbacks: tuple[OneModel, ...] = Field((), max_length=5, description="Models to ask then, in order.")

    @field_validator("fallbacks", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return [_named(each) if isinstance(each, str) else each for each in value] if isinstance(value, list) else value

    @field_validator("fallback_after", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


# What a role's parameters say, whatever a client library puts there.
_OURS: Final = frozenset({"model", "temperature", "max_tokens", "max_completion_tokens", "reasoning_effort"})
_KEYS: Final = ("api_key", "api_key_file", "api_key_env")
_ENDPOINT: Final = ("base_url", *_KEYS, "key_header", "query", "provider", "options")


def parameters_of(role: str, given: Mapping[str, Any], otherwise: ModelParameters) -> ModelParameters:
    """Returns the parameters of a role: its own, over those of `default`, over what the service has otherwise.

    A role that names an endpoint takes nothing of another one's, least of all its key. Raises ValidationError.
    """
    shared, own = _named(given.get(DEFAULT)), _named(given.get(role))
    made = _over(_over(otherwise.model_dump(exclude_defaults=True), shared), own)
    first = {name: value for name, value in made.items() if name in OneModel.model_fields}
    fallbacks = [_over(first, _named(each)) for each in made.get("fallbacks") or ()]
    return ModelParameters.model_validate({**made, "fallbacks": fallbacks})


def answers_by_default(given: Mapping[str, Any]) -> bool:
    """Tells whether `default` says who answers, and not only with what it is asked."""
    return any(_named(given.get(DEFAULT)).get(name) for name in ("model", "base_url", "provider"))


def problems_of_models(roles: Iterable[str], given: Mapping[str, Any], otherwise: ModelParameters) -> list[str]:
    """Returns what is wrong with the models of some roles: how they are described, their key files, what they need."""
    problems = list[str]()
    for role in roles:
        where = f"SIGNALBOX_MODELS [{role}]"
        try:
            parameters = parameters_of(role, given, otherwise)
            for each in (parameters, *parameters.fallbacks):
                _ = each.key
                missing = missing_for(each.provider) if each.provider else ""
                missing = missing or ("" if each.model else "which model is not said")
                problems += [f"{where}: {missing}"] if missing else []
        except ValidationError as error:
            problems += [f"{where}: {problem}" for problem in problems_of(error)]
        except OSError as error:
            problems.append(f"{where} [key]: {error.filename}: {error.strerror}")
    return list(dict.fromkeys(problems))


def _named(given: Any) -> dict[str, Any]:
    """Returns parameters that may be a model's name alone; `anthropic:claude-…` names a provider as well."""
    if isinstance(given, OneModel):
        return given.model_dump(exclude_unset=True)
    return {"model": given} if isinstance(given, str) else dict(given or {})


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    if above.get("base_url") or above.get("provider"):
        below = {name: value for name, value in below.items() if name not in _ENDPOINT}
    elif any(above.get(name) for name in _KEYS):
        below = {name: value for name, value in below.items() if name not in _KEYS}
    return {**below, **above}
