"""A chat client over the kit's completions that makes something of every answer that a model may give.

What it sends and understands is ChatOpenAI's; the request itself goes without the SDK, whose share of a run's CPU is
the largest (docs/adr/0008-lean-model-calls.md). Models say things that the API does not foresee: arguments that are
JSON but no object, tool calls without an id or with one id for two calls, half of a surrogate pair, numbers of four
hundred digits. langchain-openai raises on the first, and neither a checkpoint nor a message can hold the last two.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, cast
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from pydantic import ConfigDict, SecretStr

from services.kit.completions import CompletionError, Completions

# NaN, infinities, more digits than 64 bits hold, exponents that may be beyond a double.
_ODD_NUMBER = re.compile(r"NaN|Infinity|\d{18}|\d[eE]\+?\d{3}")
NOT_THE_APIS_FORM = "not_the_apis_form"


class LenientChatOpenAI(ChatOpenAI):
    """ChatOpenAI whose requests go over `completions` and whose answers have been mended. Raises CompletionError."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    completions: Completions

    async def answer(
        self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]] = (), tool_choice: str | None = None
    ) -> AIMessage:
        """Sends messages and returns the answer; `tool_choice` names the tool that it must be. Raises CompletionError.

        What `ainvoke` adds to it, LangChain's own callbacks, is a third of a call's CPU and nothing that we use.
        """
        asked: dict[str, Any] = {"tools": list(tools)} if tools else {}
        if tool_choice:
            asked["tool_choice"] = {"type": "function", "function": {"name": tool_choice}}
        result = await self._agenerate(list(messages), **asked)
        return cast(AIMessage, result.generations[0].message)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del run_manager
        answer = await self.completions.create(self._get_request_payload(messages, stop=stop, **kwargs))
        try:
            mend(answer)
            return self._create_chat_result(answer)
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            raise CompletionError(
                NOT_THE_APIS_FORM, f"the model's answer is not of the API's form: {error}", retryable=False
            ) from error


def make_client(completions: Completions, model: str) -> LenientChatOpenAI:
    """Returns a client of one model; a self-hosted endpoint has no Responses API, so that is never used."""
    return LenientChatOpenAI(
        model=model,
        completions=completions,
        # The completions have the key; ChatOpenAI insists on one of its own.
        api_key=SecretStr("none"),
        temperature=0,
        use_responses_api=False,
        stream_usage=True,
    )


def mend(answer: dict[str, Any]) -> None:
    """Mends an answer in place. Raises ValueError and the like for one that is not of the API's form."""
    message = answer["choices"][0]["message"]
    message["content"] = well_formed(message.get("content") or "")
    taken: set[str] = set()
    for call in message.get("tool_calls") or ():
        if call.get("type", "function") != "function":
            raise ValueError(f"a tool call of the type {call['type']!r}")
        call["type"] = "function"
        function = call["function"]
        function["name"] = well_formed(function.get("name") or "")
        function["arguments"] = mended_arguments(function.get("arguments") or "")
        if not call.get("id") or call["id"] in taken:
            call["id"] = f"call_{uuid4().hex}"
        taken.add(call["id"])


def mended_arguments(text: str) -> str:
    """Returns a JSON object with well-formed strings, or text that is no JSON and so will be told to the model."""
    plain = "\\u" not in text and not _ODD_NUMBER.search(text)
    if not text.strip() or (text.lstrip().startswith("{") and plain):
        return well_formed(text)
    try:
        value = json.loads(text, parse_int=_held, parse_float=_held, parse_constant=_held)
    except OverflowError:
        return f"a number that no tool takes: {well_formed(text)}"
    except ValueError:
        return well_formed(text)
    if not isinstance(value, dict):
        return f"not an object: {well_formed(text)}"
    return well_formed(json.dumps(value, ensure_ascii=False))


def _held(text: str) -> int | float:
    """Returns a number that checkpoints and messages can hold. Raises OverflowError for any other."""
    value = float(text)
    if not math.isfinite(value) or (text.lstrip("-").isdecimal() and abs(value) >= 2**63):
        raise OverflowError(text[:40])
    return int(text) if text.lstrip("-").isdecimal() else value


def well_formed(text: str) -> str:
    """Returns the text with a question mark for each half of a surrogate pair, which UTF-8 can't carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
