"""From a skill's answer to OpenAI's `chat.completion`, with counts of tokens.

There is no tokenizer behind the skills, so a token is defined here: a run of up to six letters or digits, or one other
character that is not white space; a message costs four more for its frame. For English text and SQL that is close to
what byte-pair tokenizers count.
"""

from __future__ import annotations

import re
import time
import uuid
from typing import Any

import orjson

from services.kit.models.offline_rules import OFFLINE_RULES
from services.offline_model.conversation import Answer
from services.offline_model.wire import ChatRequest

FRAME_TOKENS = 4
_TOKEN = re.compile(r"\w{1,6}|[^\w\s]")


def complete(request: ChatRequest, answer: Answer) -> dict[str, Any]:
    """Turns an answer into a completion: cut to the token limit, counted, with ids for its tool calls."""
    text = cut_to_tokens(answer.text, request.token_limit)
    functions = [{"name": each.tool, "arguments": orjson.dumps(each.arguments).decode()} for each in answer.calls]
    calls = [{"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": each} for each in functions]
    message = {"role": "assistant", "content": None if calls else text, **({"tool_calls": calls} if calls else {})}
    reason = "tool_calls" if calls else "length" if text != answer.text else "stop"
    asked, said = _asked_tokens(request), count_tokens(text + "".join(f" {each}" for each in functions))
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}", "object": "chat.completion", "created": int(time.time()),
        "model": request.model, "system_fingerprint": OFFLINE_RULES,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
    }  # fmt: skip


def count_tokens(text: str) -> int:
    """Counts the tokens of a text."""
    return sum(1 for _ in _TOKEN.finditer(text))


def cut_to_tokens(text: str, limit: int | None) -> str:
    """Returns the beginning of a text that has at most so many tokens."""
    for index, token in enumerate(_TOKEN.finditer(text)):
        if index == limit:
            return text[: token.start()].rstrip()
    return text


def _asked_tokens(request: ChatRequest) -> int:
    """Counts what a request puts in front of the model: messages, tool calls and tool definitions."""
    calls = [call.function for message in request.messages for call in message.tool_calls]
    texts = [message.text for message in request.messages] + [f"{each.name} {each.arguments}" for each in calls]
    texts += [orjson.dumps(tool.model_dump()).decode() for tool in request.tools]
    return FRAME_TOKENS * len(request.messages) + sum(map(count_tokens, texts))
