"""One-shot questions to an OpenAI-compatible model, for the services that ask for a verdict and not for tool calls."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import grpc

from services.kit.errors import SignalboxError
from services.kit.models.answers import mend
from services.kit.models.call import model_call
from services.kit.models.chain import Completes
from services.kit.models.completions import CUT_SHORT, NOT_THE_APIS_FORM, CompletionError
from services.kit.models.offline_rules import is_by_offline_rules
from services.kit.telemetry.names import GEN_AI_CHAT


class ModelUnavailable(SignalboxError):
    """The model did not answer: no connection, no answer in time, 429, 5xx. Its metadata names the `cause`."""

    reason = "MODEL_UNAVAILABLE"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class ModelUnusable(SignalboxError):
    """The model's endpoint refuses us, or does not answer in the API's form. Its metadata names the `cause`."""

    reason = "MODEL_UNUSABLE"
    code = grpc.StatusCode.FAILED_PRECONDITION


@dataclass(frozen=True)
class Completion:
    """What a model answered, without its reasoning, and what that took; not `whole` when a limit cut it short.

    offline_rules: rules made it, and no language model.
    """

    text: str
    model: str
    input_tokens: int
    output_tokens: int
    elapsed_ms: float
    cached_tokens: int = 0
    whole: bool = True
    offline_rules: bool = False


class ModelClient:
    """Asks one model. Whoever makes it closes it."""

    def __init__(self, source: Completes, model: str) -> None:
        self._model = model
        self._source = source

    async def complete(self, purpose: str, *, system: str, user: str, max_tokens: int = 256) -> Completion:
        """Sends a system and a user message and returns the answer. Raises ModelUnavailable, ModelUnusable."""
        try:
            with model_call(GEN_AI_CHAT, purpose, self._model) as call:
                completion = await self._ask(system, user, max_tokens)
                call.took(completion.input_tokens, completion.output_tokens, completion.cached_tokens)
                return completion
        except CompletionError as error:
            failed = ModelUnavailable if error.retryable else ModelUnusable
            said = f": {error.said}" if error.said and not error.retryable else ""
            raise failed(
                f"the model {self._model!r} did not answer ({error.kind}){said}", metadata={"cause": error.kind}
            ) from error

    async def _ask(self, system: str, user: str, max_tokens: int) -> Completion:
        start = time.perf_counter()
        answer = await self._source.create(
            {
                "model": self._model,
                "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
                "max_tokens": max_tokens,
                "temperature": 0,
            }
        )
        try:
            return self._read(answer, (time.perf_counter() - start) * 1000)
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            raise CompletionError(
                NOT_THE_APIS_FORM, f"the model's answer is not of the API's form: {error}", retryable=False
            ) from error

    def _read(self, answer: dict[str, Any], elapsed_ms: float) -> Completion:
        mend(answer)
        usage, choice = answer.get("usage") or {}, answer["choices"][0]
        given = int(usage.get("prompt_tokens") or 0)
        return Completion(
            text=choice["message"]["content"],
            model=str(answer.get("model") or self._model),
            input_tokens=given,
            output_tokens=int(usage.get("completion_tokens") or 0),
            elapsed_ms=elapsed_ms,
            cached_tokens=min(int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0), given),
            whole=choice.get("finish_reason") not in CUT_SHORT,
            offline_rules=is_by_offline_rules(answer),
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._source.close()
