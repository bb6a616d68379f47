"""The code executor's tools as an agent has them: the source is the run's, whatever a model says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from google.protobuf import json_format

from services.runtime.agents.code_review.code_bank import Fragment, fragments_of
from services.runtime.agents.refusals import refusal
from services.runtime.calls.tool_client import ToolClient
from services.runtime.routing.run_context import NodeContext

INJECTED = "x-signalbox-injected"
MAX_TOOL_CALL_ID = 256


class Source(TypedDict):
    """A repository at a commit."""

    repository: str
    commit: str


@dataclass(frozen=True)
class CodeFound:
    """What a code tool gave: words for the model, fragments, symbols that were found; `error` is its refusal."""

    text: str
    fragments: list[Fragment]
    symbols: list[str]
    error: str = ""


class CodeTools:
    """Calls the code executor for agents."""

    def __init__(self, client: ToolClient) -> None:
        self._client = client

    async def functions(self, context: NodeContext, names: Iterable[str]) -> list[dict[str, Any]]:
        """Returns the tools in the form that chat completions take, without the arguments that the platform fills."""
        catalog = await self._client.catalog(context)
        return [_without_injected(catalog[name].as_function()) for name in names if name in catalog]

    async def call(
        self, context: NodeContext, source: Source, tool: str, arguments: Mapping[str, Any], tool_call_id: str
    ) -> CodeFound:
        """Calls a tool at the run's source. Raises what `ToolClient.call` does."""
        given = {**arguments, "source": dict(source)}
        answer = await self._client.call(context, tool, given, tool_call_id[:MAX_TOOL_CALL_ID])
        if answer.HasField("error"):
            text = refusal(answer.error.reason, answer.error.message)
            return CodeFound(text, [], [], error=text)
        with self._client.reading(f"run {tool}"):
            data = json_format.MessageToDict(answer.output.data)
            fragments = fragments_of(data, source["commit"], answer.output.code_readings)
            symbols = [str(item["name"]) for item in data.get("definitions") or ()]
            return CodeFound(answer.output.text, fragments, symbols)


def own_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that are a model's to choose."""
    return {name: value for name, value in arguments.items() if name != "source"}


def canonical(tool: str, arguments: Mapping[str, Any]) -> str:
    """Returns a call in a form in which equal calls are equal."""
    return f"{tool} {json.dumps(own_arguments(arguments), sort_keys=True, default=str)}"


def _without_injected(function: dict[str, Any]) -> dict[str, Any]:
    described = function["function"]
    schema = dict(described["parameters"])
    properties = schema.get("properties") or {}
    injected = {name for name, value in properties.items() if value.get(INJECTED)}
    schema["properties"] = {name: value for name, value in properties.items() if name not in injected}
    schema["required"] = [name for name in schema.get("required") or () if name not in injected]
    schema.pop("$schema", None)
    return {**function, "function": {**described, "parameters": schema}}
