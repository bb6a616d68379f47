"""A chat client that makes something of every answer that a model may give.

Models say things that the API does not foresee: arguments that are JSON but no object, tool calls without an id or with
one id for two calls, half of a surrogate pair. langchain-openai raises on the first, and neither a checkpoint nor a
message can hold the last.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import openai
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from openai.types.chat import ChatCompletion


class LenientChatOpenAI(ChatOpenAI):
    """ChatOpenAI whose answers have been mended; raises ValueError for those that are not of the API's form."""

    def _create_chat_result(
        self,
        response: dict[str, Any] | openai.BaseModel,
        generation_info: dict[str, Any] | None = None,
    ) -> ChatResult:
        if isinstance(response, ChatCompletion):
            try:
                mend(response)
            except (AttributeError, TypeError) as error:
                raise ValueError("the answer is not of the API's form") from error
        return super()._create_chat_result(response, generation_info)


def mend(completion: ChatCompletion) -> None:
    """Mends an answer in place. Raises ValueError when it holds no choice."""
    if not getattr(completion, "choices", None):
        raise ValueError("the answer holds no choice")
    message = completion.choices[0].message
    message.content = well_formed(message.content or "")
    taken: set[str] = set()
    for call in message.tool_calls or ():
        if call.type != "function":
            raise ValueError(f"the answer holds a tool call of the type {call.type!r}")
        call.function.name = well_formed(call.function.name or "")
        call.function.arguments = mended_arguments(call.function.arguments or "")
        if not call.id or call.id in taken:
            call.id = f"call_{uuid4().hex}"
        taken.add(call.id)


def mended_arguments(text: str) -> str:
    """Returns a JSON object with well-formed strings, or text that is no JSON and so will be told to the model."""
    if not text.strip() or (text.lstrip().startswith("{") and "\\u" not in text):
        return well_formed(text)
    try:
        value = json.loads(text)
    except ValueError:
        return well_formed(text)
    if not isinstance(value, dict):
        return f"not an object: {well_formed(text)}"
    return well_formed(json.dumps(value, ensure_ascii=False))


def well_formed(text: str) -> str:
    """Returns the text with a question mark for each half of a surrogate pair, which UTF-8 can't carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
