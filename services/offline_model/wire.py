"""The request of `POST /v1/chat/completions`, as far as the skills can honour it.

Sampling parameters are accepted and mean nothing: the skills are deterministic. What would change the shape of the
answer (`n`, `stream`, `response_format`, log probabilities) is refused rather than ignored, and so are tool messages
that answer no call, and calls that no message answers: providers refuse them, too.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from services.kit.text.problems import problems_of
from services.offline_model.errors import ApiError

MAX_MESSAGES = 2048
MAX_TOOLS = 128


class _Part(BaseModel):
    """One object of the request; fields that are not named are ignored, as OpenAI-compatible servers do."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class FunctionCall(_Part):
    """Name and arguments of a call, the arguments as the JSON text that the model wrote."""

    name: str
    arguments: str = "{}"


class ToolCall(_Part):
    """A tool call in an assistant message."""

    id: str
    function: FunctionCall


def _text_of(content: Any) -> Any:
    """Joins content parts; only text parts have a meaning here."""
    if not isinstance(content, list):
        return "" if content is None else content
    if any(not isinstance(part, dict) or part.get("type") not in {"text", "refusal"} for part in content):
        raise ValueError("content parts must be of type text")
    return "\n".join(str(part.get("text") or part.get("refusal") or "") for part in content)


class Message(_Part):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    text: Annotated[str, BeforeValidator(_text_of)] = Field("", alias="content")
    tool_calls: Annotated[tuple[ToolCall, ...], BeforeValidator(lambda value: value or ())] = ()
    tool_call_id: str = ""


class Function(_Part):
    """A function that the model may call, or in a tool choice the one that it must."""

    name: str = Field(min_length=1, max_length=128)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(_Part):
    """A tool that the model may call, or in a tool choice the one that it must."""

    type: Literal["function"]
    function: Function


class ResponseFormat(_Part):
    """The wanted format of the answer; the skills answer in text."""

    type: Literal["text"]


class ChatRequest(_Part):
    """A request for a completion."""

    model: str = Field(min_length=1, max_length=256)
    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    tools: Annotated[tuple[Tool, ...], BeforeValidator(lambda value: value or ())] = Field((), max_length=MAX_TOOLS)
    tool_choice: Literal["none", "auto", "required"] | Tool | None = None
    n: Literal[1] | None = None
    stream: Literal[False] | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: Literal[False] | None = None
    response_format: ResponseFormat | None = None

    @property
    def token_limit(self) -> int | None:
        """The most tokens that the answer may have."""
        return self.max_completion_tokens or self.max_tokens


def read_request(document: Any) -> ChatRequest:
    """Checks a decoded request body. Raises ApiError, which names the field."""
    if not isinstance(document, dict):
        raise ApiError("The request body must be a JSON object.")
    try:
        request = ChatRequest.model_validate(document)
    except ValidationError as error:
        where, what = problems_of(error)[0]
        raise ApiError(f"Invalid {where or 'request'}: {what}.", param=where or None) from error
    names = [tool.function.name for tool in request.tools]
    chosen = request.tool_choice.function.name if isinstance(request.tool_choice, Tool) else ""
    if len(set(names)) != len(names):
        raise ApiError("Two tools have the same name.", param="tools")
    if (request.tool_choice == "required" and not names) or (chosen and chosen not in names):
        raise ApiError(f"tool_choice demands {chosen or 'a tool'}, which is not in tools.", param="tool_choice")
    _check_tool_messages(request)
    return request


def _check_tool_messages(request: ChatRequest) -> None:
    """A tool message answers a call made before it, and every call is answered before the talk goes on."""
    waiting: set[str] = set()
    for index, message in enumerate(request.messages):
        where = f"messages.{index}"
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                raise ApiError(f"{where}: a tool message must follow the call that asked for it.", param=where)
            waiting.discard(message.tool_call_id)
        elif waiting:
            raise ApiError(f"{where}: tool calls without a tool message: {', '.join(sorted(waiting))}.", param=where)
        else:
            waiting = {call.id for call in message.tool_calls}
    if waiting:
        raise ApiError(f"Tool calls without a tool message: {', '.join(sorted(waiting))}.", param="messages")
