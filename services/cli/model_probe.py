"""What the platform needs of a model, tried with a few small calls: each says what it saw."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

import aiohttp
import jsonschema
from pydantic import BaseModel, Field

from services.kit.models.answers import mend, schemas_of
from services.kit.models.chain import looks_cut
from services.kit.models.completions import CompletionError, Completions
from services.kit.models.parameters import ModelParameters
from services.kit.models.provider_words import says_too_long
from services.kit.models.records import UnreadableAnswer, read_text
from services.kit.models.streamed import ESTIMATED
from services.local.topology import ModelEndpoint

NAMES_TIMEOUT_S = 10.0
SHOWN_NAMES = 10
SHOWN_TEXT = 120
ROOM_TO_REASON = 1024
MOST_REFUSALS = 4
# Characters, of about 8,000 tokens: twice what Ollama takes as it comes, and less than agents' longest prompts.
LONG_PROMPT = 32_000
_WORD = "marzipan"

COUNT_TOOL = {
    "type": "function",
    "function": {
        "name": "count_devices",
        "description": "Counts the devices that are warmer than a temperature.",
        "parameters": {
            "type": "object",
            "properties": {"celsius": {"type": "number", "description": "Temperature in degrees Celsius."}},
            "required": ["celsius"],
            "additionalProperties": False,
        },
    },
}


class Judgement(BaseModel):
    """What the probe of a judge is asked for."""

    supported: bool
    reason: str


class Failed(Exception):
    """A model does not do what is needed; the message says what it did, and what to do about it."""


class TooLong(Failed):
    """An endpoint says that a prompt is longer than its model's context."""


class Verdict(BaseModel):
    """What the probe of structured output is asked for."""

    verdict: Literal["TRUE_POSITIVE", "FALSE_POSITIVE", "NEEDS_REVIEW"]
    confidence: float = Field(ge=0, le=1)
    lines: list[int] = Field(min_length=1)


VERDICT_TOOL = {
    "type": "function",
    "function": {
        "name": "submit_verdict",
        "description": "Submits the verdict.",
        "parameters": Verdict.model_json_schema(),
    },
}


class ModelProbe:
    """Tries one model; every method returns what it saw, or raises Failed."""

    def __init__(self, completions: Completions, endpoint: ModelEndpoint, model: str) -> None:
        self._completions = completions
        self._endpoint = endpoint
        self._model = model
        self._parameters = ModelParameters(model=model)

    async def answers(self) -> str:
        """Asks for one sentence: says that key, name and parameters are right, and how fast the model is."""
        settings = await self._find_parameters()
        start = time.perf_counter()
        answer, usage = await self._ask([_user("Write one sentence about the sea.")])
        if not (answer.get("content") or "").strip():
            raise Failed("its answer was empty: a reasoning model may need a higher token limit")
        tokens = usage["completion_tokens"] / (time.perf_counter() - start)
        if usage.get(ESTIMATED):
            return f"it answers, but does not say how many tokens it used: budgets count an estimate{settings}"
        return f"it answers, {tokens:.0f} tokens/s{settings}"

    async def _find_parameters(self) -> str:
        """Leaves out what the endpoint refuses, as it says; returns the settings that do so, to copy."""
        request = {"messages": [_user("Say yes.")], "max_tokens": ROOM_TO_REASON}
        for _ in range(MOST_REFUSALS):
            try:
                await self._completions.create(self._parameters.request(request))
                break
            except CompletionError as error:
                changed = without_refused(self._parameters, error)
                if changed is None:
                    raise Failed(await self._explained(error)) from error
                self._parameters = changed
        own = self._parameters.model_dump(exclude_defaults=True, exclude={"model"})
        if not own:
            return ""
        wanted = json.dumps({"default": own})
        return f"; with these settings of runtime, guard and evaluator: SIGNALBOX_MODELS='{wanted}'"

    async def uses_tools(self) -> str:
        """Offers a tool that the question needs, gives it the result, and looks for that in the answer."""
        messages = [_user("How many devices are warmer than 12 degrees? Use the tool, then say the number.")]
        answer, _ = await self._ask(messages, tools=[COUNT_TOOL])
        call = _tool_call(answer, COUNT_TOOL)
        if call["arguments"] != {"celsius": 12}:
            raise Failed(f"it called the tool with {json.dumps(call['arguments'])}, not with 12 degrees")
        result = {"role": "tool", "tool_call_id": call["id"], "content": '{"count": 4711}'}
        final, _ = await self._ask([*messages, answer, result], tools=[COUNT_TOOL])
        if "4711" not in re.sub(r"(?<=\d)[,.\s\u202f](?=\d)", "", final.get("content") or ""):
            raise Failed(f"it was told 4711 by the tool, and answered {_shown(final.get('content'))}")
        return "it calls a tool and uses its result"

    async def returns_structured(self) -> str:
        """Makes it call one tool, whose arguments have a schema: how verdicts are returned."""
        messages = [_user("Line 3 runs eval() on what a caller sends. Submit your verdict on that finding.")]
        choice = {"type": "function", "function": {"name": "submit_verdict"}}
        answer, _ = await self._ask(messages, tools=[VERDICT_TOOL], tool_choice=choice)
        if answer.get("tool_calls"):
            _tool_call(answer, VERDICT_TOOL)
            return "it returns what a schema asks for"
        said = answer.get("content") or ""
        with suppress(UnreadableAnswer):
            read_text(Verdict, said)
            return "it passes over `tool_choice`, and returns what a schema asks for as text, which is read"
        told = [*messages, {"role": "assistant", "content": said or "."}, _user("Call submit_verdict.")]
        answer, _ = await self._ask(told, tools=[VERDICT_TOOL], tool_choice=choice)
        _tool_call(answer, VERDICT_TOOL)
        return (
            "it passes over `tool_choice`, and returns what a schema asks for once it is told to: a call more each time"
        )

    async def holds_context(self) -> str:
        """Gives it a word, much to read, and asks for the word: whether long prompts are cut without being refused."""
        lines = (f"Line {number}: device {number % 97} was looked at, and is well." for number in itertools.count(1))
        much = "\n".join(itertools.islice(lines, LONG_PROMPT // 50))
        messages = [_user(f"Remember the word {_WORD}."), {"role": "assistant", "content": "I do."},
                    _user(much), {"role": "assistant", "content": "I have read it."},
                    _user("Which word are you to remember? Answer with the word alone.")]  # fmt: skip
        try:
            answer, usage = await self._ask(messages)
        except TooLong as error:
            return f"it refuses a prompt of {len(much):,} characters, and is asked with less then: {error}"
        advice = "give it a larger context (docs/models.md), or agents a smaller `context_characters`"
        if looks_cut(messages, usage):
            tokens = usage["prompt_tokens"]
            raise Failed(
                f"of a prompt of {len(much):,} characters it read {tokens:,} tokens, and did not say so: {advice}"
            )
        if _WORD not in str(answer.get("content") or "").lower():
            raise Failed(f"what {len(much):,} characters before its question said is lost to it: {advice}")
        return f"it reads a prompt of {len(much):,} characters whole"

    async def judges(self) -> str:
        """Asks for a JSON object and nothing else: how the evaluator is answered."""
        schema = json.dumps(Judgement.model_json_schema())
        messages = [
            {"role": "system", "content": f"Answer with one JSON object of this schema, and nothing else: {schema}"},
            _user("Claim: line 3 calls eval. Line 3: `return eval(text)`. Is the claim supported?"),
        ]
        answer, _ = await self._ask(messages)
        try:
            read_text(Judgement, answer.get("content") or "")
        except UnreadableAnswer as error:
            raise Failed(f"its answer does not match the schema: {error}") from error
        return "it answers in JSON"

    async def _ask(self, messages: list[dict[str, Any]], **options: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
        payload = self._parameters.request({"messages": messages, **options})
        try:
            answer = await self._completions.create(payload)
            mend(answer, schemas_of(tools) if (tools := options.get("tools")) else None)
            choice = answer["choices"][0]
            message = dict(choice["message"])
            usage = {**answer["usage"], ESTIMATED: answer.get(ESTIMATED, False)}
        except CompletionError as error:
            if says_too_long(str(error)):
                raise TooLong(error.said or str(error)) from error
            raise Failed(await self._explained(error)) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Failed("its answer does not have the form of the chat completions API") from error
        if choice.get("finish_reason") == "length":
            raise Failed("its answer was cut at the endpoint's token limit: raise that limit")
        return message, usage

    async def _explained(self, error: CompletionError) -> str:
        if error.kind in ("http_401", "http_403"):
            return f"the endpoint refuses the key: check OPENAI_API_KEY ({error})"
        if error.kind == "http_404":
            names = await _model_names(self._endpoint)
            known = f"; it has: {', '.join(names[:SHOWN_NAMES])}" if names else ""
            return f"the endpoint knows no such model, or has no /chat/completions{known} ({error})"
        if error.kind == "connection":
            return f"nothing answers at {self._endpoint.base_url}: check OPENAI_BASE_URL ({error})"
        return str(error)


def without_refused(parameters: ModelParameters, error: CompletionError) -> ModelParameters | None:
    """Returns parameters without the one that an endpoint says it does not take; None where it speaks of none."""
    if error.kind not in ("http_400", "http_422"):
        return None
    words = error.said.lower()
    if "temperature" in words and parameters.temperature is not None:
        return parameters.model_copy(update={"temperature": None})
    if "max_tokens" in words or "max_completion_tokens" in words:
        others = {"max_tokens": "max_completion_tokens", "max_completion_tokens": ""}
        if other := others.get(parameters.max_tokens_as):
            return parameters.model_copy(update={"max_tokens_as": other})
        return parameters.model_copy(update={"max_tokens_as": ""}) if parameters.max_tokens_as else None
    return None


async def _model_names(endpoint: ModelEndpoint) -> list[str]:
    """The models that an endpoint says it has; none when it does not say."""
    headers = {"Authorization": f"Bearer {endpoint.api_key or 'none'}"}
    timeout = aiohttp.ClientTimeout(total=NAMES_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
            session.get(endpoint.base_url.rstrip("/") + "/models") as response,
        ):
            listed = await response.json(content_type=None)
            return sorted(str(each["id"]) for each in listed["data"])
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError):
        return []


def _tool_call(answer: Mapping[str, Any], tool: Mapping[str, Any]) -> dict[str, Any]:
    """The one call of a tool that an answer makes, its arguments read and held against the tool's schema."""
    function = tool["function"]
    calls = answer.get("tool_calls") or []
    named = [call for call in calls if call.get("function", {}).get("name") == function["name"]]
    if not named:
        raise Failed(f"it did not call the tool {function['name']}, but answered {_shown(answer.get('content'))}")
    return {
        "id": named[0].get("id", ""),
        "arguments": _conforming(named[0]["function"].get("arguments", ""), function["parameters"]),
    }


def _conforming(text: str, schema: Mapping[str, Any]) -> Any:
    try:
        value = json.loads(text)
        jsonschema.validate(value, schema)
    except ValueError as error:
        raise Failed(f"what should be JSON is {_shown(text)}") from error
    except jsonschema.ValidationError as error:
        raise Failed(f"its answer does not match the schema: {error.message[:SHOWN_TEXT]}") from error
    return value


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _shown(text: object) -> str:
    return repr(str(text or "")[:SHOWN_TEXT])
