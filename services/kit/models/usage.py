"""What a service's own model took: told with the answer, or with the error where no answer came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Tokens(NamedTuple):
    """What an answer took; `cached` are those of the input that its endpoint had cached."""

    input: int
    output: int
    cached: int


def tokens_in(usage: Mapping[str, Any] | None) -> Tokens:
    """Returns the tokens of a usage in the API's form."""
    usage = usage or {}
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Tokens(usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0, cached)


@dataclass(frozen=True)
class ModelUsage:
    """What asking a model took, over all of its calls; without a number of them it counts as one.

    offline_rules: rules answered at least one of them, and no language model. prompts: a digest of its prompts.
    cached_tokens: those of the input that its endpoint had cached.
    """

    model: str
    input_tokens: int
    output_tokens: int
    elapsed_ms: float
    calls: int = 0
    offline_rules: bool = False
    prompts: str = ""
    cached_tokens: int = 0

    def metadata(self) -> dict[str, str]:
        """Returns what an error says of it, so that its caller can charge the run for the model's tokens."""
        told = {
            "model": self.model,
            "input_tokens": str(self.input_tokens),
            "output_tokens": str(self.output_tokens),
            "model_elapsed_ms": f"{self.elapsed_ms:.3f}",
        }
        more = {"model_calls": str(self.calls) if self.calls else "", "prompts": self.prompts}
        more["cached_tokens"] = str(self.cached_tokens) if self.cached_tokens else ""
        return told | {name: text for name, text in more.items() if text}


def usage_told(metadata: Mapping[str, str]) -> ModelUsage | None:
    """Returns what an error's metadata says of its service's model; None where that was not asked."""
    if not metadata.get("model"):
        return None
    return ModelUsage(
        model=metadata["model"],
        input_tokens=_number(metadata, "input_tokens"),
        output_tokens=_number(metadata, "output_tokens"),
        elapsed_ms=float(_number(metadata, "model_elapsed_ms")),
        calls=_number(metadata, "model_calls"),
        prompts=metadata.get("prompts", ""),
        cached_tokens=_number(metadata, "cached_tokens"),
    )


def _number(metadata: Mapping[str, str], name: str) -> int:
    whole = metadata.get(name, "").partition(".")[0]
    return int(whole) if whole.isdecimal() else 0
