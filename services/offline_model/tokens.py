"""Token counts.

There is no tokenizer behind the skills, so a token is defined here: a run of up to six letters or digits, or one other
character that is not white space. For English text and SQL that is close to what byte-pair tokenizers count. Every
message costs four more for its frame, as it does in chat formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import orjson

from services.offline_model.wire import Message, Tool

FRAME_TOKENS = 4
_TOKEN = re.compile(r"\w{1,6}|[^\w\s]")


def count_tokens(text: str) -> int:
    """Counts the tokens of a text."""
    return sum(1 for _ in _TOKEN.finditer(text))


def cut_to_tokens(text: str, limit: int) -> str:
    """Returns the beginning of a text that has at most so many tokens."""
    for index, token in enumerate(_TOKEN.finditer(text)):
        if index == limit:
            return text[: token.start()].rstrip()
    return text


def count_prompt_tokens(messages: Iterable[Message], tools: Iterable[Tool]) -> int:
    """Counts what a request puts in front of the model: messages, tool calls and tool definitions."""
    total = 0
    for message in messages:
        total += FRAME_TOKENS + count_tokens(message.text)
        total += sum(
            count_tokens(call.function.name) + count_tokens(call.function.arguments) for call in message.tool_calls
        )
    return total + sum(count_tokens(orjson.dumps(tool.model_dump()).decode()) for tool in tools)
