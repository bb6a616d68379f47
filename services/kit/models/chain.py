"""The models of a role, one after another: who is asked where the one before failed in a way that another may mend."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, runtime_checkable

from services.kit.models.completions import CompletionError, Completions, Endpoint
from services.kit.models.parameters import Failure, ModelParameters, OneModel
from services.kit.models.provider_model import ProviderModel
from services.kit.models.usage import tokens_in
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import MODEL_FALLBACKS, MODEL_PROMPTS_CUT

log = get_logger()
# Who has failed as away is not asked for this long, as long as there is another.
REST_S: Final = 20.0
# The key of the answer in which the name stands that was asked for.
ASKED: Final = "signalbox_asked"
# No tokenizer makes so few of what prompts hold; most make one of four characters.
_MOST_CHARACTERS_A_TOKEN: Final = 10
_LONG_PROMPT: Final = 8000
_NINE: Final = re.compile("[A-Za-z0-9]{9}")


@runtime_checkable
class Completes(Protocol):
    """What answers requests in the form of chat completions."""

    async def create(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Returns an answer in the API's form. Raises CompletionError."""

    async def close(self) -> None:
        """Closes the connections."""


Noted = Callable[[str, CompletionError, float], None]


class ModelChain:
    """Asks the first model of a role that can answer. Whoever makes it closes it."""

    def __init__(
        self,
        role: str,
        parameters: ModelParameters,
        *,
        timeout_s: float,
        retries: int,
        noted: Noted | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._role = role
        self._after = parameters.fallback_after
        self._links = [_Link(each, timeout_s, retries) for each in (parameters, *parameters.fallbacks)]
        self._noted = noted
        self._clock = clock

    async def create(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the answer of the first model that gives one. Raises CompletionError, the last one's."""
        awake = [link for link in self._links if link.rests_until <= self._clock()] or self._links[-1:]
        for link in awake[:-1]:
            start = self._clock()
            try:
                return await link.ask(self._role, payload)
            except CompletionError as error:
                if failure_of(error) not in self._after:
                    raise
                self._fell_back(link, error, self._clock() - start)
        return await awake[-1].ask(self._role, payload)

    def _fell_back(self, link: _Link, error: CompletionError, elapsed_s: float) -> None:
        if failure_of(error) == "away":
            link.rests_until = self._clock() + REST_S
        MODEL_FALLBACKS.labels(self._role, error.kind).inc()
        log.warning("another model is asked", role=self._role, model=link.name, cause=error.kind, said=error.said)
        if self._noted:
            self._noted(link.name, error, elapsed_s)

    async def close(self) -> None:
        """Closes the connections of all."""
        for link in self._links:
            await link.source.close()


class _Link:
    def __init__(self, parameters: OneModel, timeout_s: float, retries: int) -> None:
        self.name = parameters.model
        self._parameters = parameters
        timeout_s = parameters.timeout_s or timeout_s
        # Where there are to be none, others repeat it.
        retries = retries if parameters.retries is None or not retries else parameters.retries
        self.source: Completes = (
            ProviderModel(parameters, timeout_s, retries)
            if parameters.provider
            else Completions(
                Endpoint(
                    parameters.base_url,
                    parameters.key,
                    timeout_s,
                    retries,
                    parameters.key_header,
                    tuple(sorted(parameters.query.items())),
                )
            )
        )
        self.rests_until = 0.0

    async def ask(self, role: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        request = self._parameters.request(payload, role)
        request["messages"] = told_messages(
            request.get("messages") or (), breakpoint_at_system=self._parameters.prompt_cache == "breakpoint"
        )
        answer = await self.source.create(request)
        if looks_cut(request["messages"], answer.get("usage") or {}):
            MODEL_PROMPTS_CUT.inc()
            log.warning("an endpoint seems to have cut a prompt", role=role, model=self.name, took=answer["usage"])
        answer[ASKED] = self.name
        return answer


def failure_of(error: CompletionError) -> Failure:
    """Returns of which kind a failure is: the endpoint is away, it refuses, or its answer is of no use."""
    if error.retryable:
        return "away"
    return "refused" if error.said else "unusable"


def looks_cut(messages: Sequence[Mapping[str, Any]], usage: Mapping[str, Any]) -> bool:
    """Tells whether an answer says that it took far less than it was asked with, as where a server cuts in silence."""
    characters = sum(len(content) for each in messages if isinstance(content := each.get("content"), str))
    given, _, cached = tokens_in(usage)
    return characters > _LONG_PROMPT and (given + cached) * _MOST_CHARACTERS_A_TOKEN < characters


def told_messages(messages: Sequence[Mapping[str, Any]], *, breakpoint_at_system: bool = False) -> list[dict[str, Any]]:
    """Returns messages as every endpoint takes them: one system message, which is the first; calls whose ids have nine
    letters and digits, and whose arguments are JSON objects.
    """
    system = [message["content"] for message in messages if message.get("role") == "system"]
    told = [_told(message) for message in messages if message.get("role") != "system"]
    if not system:
        return told
    text = "\n\n".join(system)
    marked = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
    return [{"role": "system", "content": marked if breakpoint_at_system else text}, *told]


def _told(message: Mapping[str, Any]) -> dict[str, Any]:
    if message.get("tool_call_id"):
        return {**message, "tool_call_id": _nine(message["tool_call_id"])}
    if not message.get("tool_calls"):
        return dict(message)
    calls = [
        {**call, "id": _nine(call["id"]), "function": {**function, "arguments": _as_object(function["arguments"])}}
        for call in message["tool_calls"]
        for function in [call["function"]]
    ]
    return {**message, "tool_calls": calls}


def _nine(call_id: str) -> str:
    """Returns an id as Mistral takes it; other endpoints take any."""
    return call_id if _NINE.fullmatch(call_id) else hashlib.sha256(call_id.encode()).hexdigest()[:9]


def _as_object(arguments: str) -> str:
    """Returns arguments as endpoints take them back that read their own models' calls: never what is no object."""
    with suppress(ValueError, RecursionError):
        if isinstance(json.loads(arguments), dict):
            return arguments
    return json.dumps({"malformed": arguments})
