"""One-shot questions to an OpenAI-compatible model, for the services that ask for a verdict and not for tool calls."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from services.kit.errors import SignalboxError
from services.kit.models.answers import mend
from services.kit.models.call import model_call
from services.kit.models.chain import Completes
from services.kit.models.completions import CUT_SHORT, NOT_THE_APIS_FORM, CompletionError
from services.kit.models.offline_rules import is_by_offline_rules
from services.kit.models.usage import Tokens, tokens_in
from services.kit.telemetry.names import GEN_AI_CHAT


class ModelFailure(SignalboxError):
    """No answer came of asking a model; `took` is what answers of nothing took before, None without any."""

    took: Completion | None = None


class ModelUnavailable(ModelFailure):
    """The model did not answer: no connection, no answer in time, 429, 5xx. Its metadata names the `cause`."""

    reason = "MODEL_UNAVAILABLE"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class ModelUnusable(ModelFailure):
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
        start = time.perf_counter()
        try:
            with model_call(GEN_AI_CHAT, purpose, self._model) as call:
                completion = await self._ask(system, user, max_tokens, start)
                call.took(Tokens(completion.input_tokens, completion.output_tokens, completion.cached_tokens))
                return completion
        except CompletionError as error:
            kind = ModelUnavailable if error.retryable else ModelUnusable
            said = f": {error.said}" if error.said and not error.retryable else ""
            failed = kind(
                f"the model {self._model!r} did not answer ({error.kind}){said}", metadata={"cause": error.kind}
            )
            failed.took = _completion("", self._model, error.took, start) if error.took else None
            raise failed from error

    async def _ask(self, system: str, user: str, max_tokens: int, start: float) -> Completion:
        answer = await self._source.create(
            {
                "model": self._model,
                "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
                "max_tokens": max_tokens,
                "temperature": 0,
            }
        )
        try:
            mend(answer)
            choice = answer["choices"][0]
            return _completion(
                choice["message"]["content"],
                str(answer.get("model") or self._model),
                answer.get("usage"),
                start,
                whole=choice.get("finish_reason") not in CUT_SHORT,
                offline_rules=is_by_offline_rules(answer),
            )
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            raise CompletionError(
                NOT_THE_APIS_FORM, f"the model's answer is not of the API's form: {error}", retryable=False
            ) from error

    async def close(self) -> None:
        """Closes the connections."""
        await self._source.close()


def _completion(text: str, model: str, usage: Mapping[str, Any] | None, start: float, **about: bool) -> Completion:
    given, made, cached = tokens_in(usage)
    return Completion(text, model, given, made, (time.perf_counter() - start) * 1000, cached, **about)
