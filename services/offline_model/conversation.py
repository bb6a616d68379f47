"""What a skill sees of a request, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from services.offline_model.prompt_data import read_prompt
from services.offline_model.wire import ChatRequest, Tool

_PROMPTS = frozenset(("system", "developer", "user"))


@dataclass(frozen=True)
class Call:
    """A tool call that a skill asks for."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class CallMade(Call):
    """A tool call of the conversation so far, with its result when there is one."""

    result: str | None


@dataclass(frozen=True)
class Conversation:
    """What the prompts of a conversation hold, the calls that were made, and the tools that may be called now."""

    data: Mapping[str, Any]
    calls: tuple[CallMade, ...]
    tools: tuple[str, ...]
    must_call: bool

    def results_of(self, tool: str) -> list[str]:
        """Results of a tool's calls, oldest first."""
        return [call.result for call in self.calls if call.tool == tool and call.result is not None]


@dataclass(frozen=True)
class Answer:
    """What a skill answers: text, or calls of tools."""

    text: str = ""
    calls: tuple[Call, ...] = ()


class Skill(Protocol):
    """A deterministic stand-in for a model: a conversation in, an answer out, nothing else."""

    def __call__(self, conversation: Conversation) -> Answer: ...


def read_conversation(request: ChatRequest) -> Conversation:
    """Sorts a request's messages by what they are to a skill."""
    results = {message.tool_call_id: message.text for message in request.messages if message.role == "tool"}
    functions = [(call.id, call.function) for message in request.messages for call in message.tool_calls]
    choice = request.tool_choice
    tools = [choice] if isinstance(choice, Tool) else [] if choice == "none" else request.tools
    return Conversation(
        data=read_prompt(message.text for message in request.messages if message.role in _PROMPTS),
        calls=tuple(CallMade(each.name, _arguments(each.arguments), results.get(key)) for key, each in functions),
        tools=tuple(tool.function.name for tool in tools),
        must_call=choice == "required" or isinstance(choice, Tool),
    )


def _arguments(text: str) -> dict[str, Any]:
    """Reads arguments that some model wrote; what is no JSON object says nothing."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
