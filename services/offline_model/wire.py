"""The request of `POST /v1/chat/completions`, as far as the skills can honour it.

Sampling parameters are accepted and mean nothing: the skills are deterministic. What would change the shape of the
answer (`n`, `response_format`, log probabilities) is refused rather than ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from services.kit.text.problems import problems_of
from services.offline_model.errors import BadRequest

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
    type: Literal["function"] = "function"
    function: FunctionCall


def _text_of(content: Any) -> Any:
    """Joins content parts; only text parts have a meaning here."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return content
    texts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") not in {"text", "refusal"}:
            raise ValueError("content parts must be of type text")
        texts.append(str(part.get("text") or part.get("refusal") or ""))
    return "\n".join(texts)


class Message(_Part):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    text: Annotated[str, BeforeValidator(_text_of)] = Field("", alias="content")
    tool_calls: Annotated[tuple[ToolCall, ...], BeforeValidator(lambda value: value or ())] = ()
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _has_what_its_role_needs(self) -> Message:
        if self.role == "tool" and not self.tool_call_id:
            raise ValueError("a tool message needs tool_call_id")
        if self.tool_calls and self.role != "assistant":
            raise ValueError("only an assistant message has tool_calls")
        return self


class Function(_Part):
    """A function that the model may call."""

    name: str = Field(min_length=1, max_length=128)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(_Part):
    """A tool that the model may call."""

    type: Literal["function"]
    function: Function


class NamedFunction(_Part):
    """The name in a named tool choice."""

    name: str


class NamedTool(_Part):
    """A tool choice that names its tool."""

    type: Literal["function"]
    function: NamedFunction


class StreamOptions(_Part):
    """Options of a streamed answer."""

    include_usage: bool = False


class ResponseFormat(_Part):
    """The wanted format of the answer; the skills answer in text."""

    type: str


class ChatRequest(_Part):
    """A request for a completion."""

    model: str = Field(min_length=1, max_length=256)
    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    tools: Annotated[list[Tool], BeforeValidator(lambda value: [] if value is None else value)] = Field(
        default_factory=list, max_length=MAX_TOOLS
    )
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    logprobs: bool | None = None
    response_format: ResponseFormat | None = None

    @property
    def token_limit(self) -> int | None:
        """The most tokens that the answer may have."""
        return self.max_completion_tokens or self.max_tokens


def read_request(document: Any) -> ChatRequest:
    """Checks a decoded request body. Raises BadRequest, which names the field."""
    if not isinstance(document, dict):
        raise BadRequest("The request body must be a JSON object.")
    try:
        request = ChatRequest.model_validate(document)
    except ValidationError as error:
        where, what = problems_of(error)[0]
        raise BadRequest(f"Invalid {where or 'request'}: {what}.", param=where or None) from error
    _refuse_what_no_skill_has(request)
    _check_tools(request)
    _check_tool_messages(request)
    return request


def _refuse_what_no_skill_has(request: ChatRequest) -> None:
    if request.n not in {None, 1}:
        raise BadRequest("Only n=1 is supported: the skills are deterministic.", param="n")
    if request.logprobs:
        raise BadRequest("Log probabilities are not available: there is no probability model.", param="logprobs")
    if request.response_format is not None and request.response_format.type != "text":
        raise BadRequest("Only response_format text is supported.", param="response_format")
    if request.stream_options is not None and not request.stream:
        raise BadRequest("stream_options is only allowed when stream is true.", param="stream_options")


def _check_tools(request: ChatRequest) -> None:
    names = [tool.function.name for tool in request.tools]
    if len(set(names)) != len(names):
        raise BadRequest("Two tools have the same name.", param="tools")
    choice = request.tool_choice
    if choice not in {None, "none", "auto"} and not names:
        raise BadRequest("tool_choice is only allowed when tools are given.", param="tool_choice")
    if isinstance(choice, NamedTool) and choice.function.name not in names:
        raise BadRequest(
            f"tool_choice names the tool {choice.function.name!r}, which is not in tools.", param="tool_choice"
        )


def _check_tool_messages(request: ChatRequest) -> None:
    """A tool message answers a call made before it, and every call is answered before the talk goes on."""
    waiting: set[str] = set()
    for index, message in enumerate(request.messages):
        where = f"messages.{index}"
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                raise BadRequest(
                    f"{where}: a tool message must follow the assistant message with tool_calls that asked for it.",
                    param=where,
                )
            waiting.discard(message.tool_call_id)
        elif waiting:
            raise BadRequest(f"{where}: tool calls without a tool message: {', '.join(sorted(waiting))}.", param=where)
        else:
            waiting = {call.id for call in message.tool_calls}
    if waiting:
        raise BadRequest(f"Tool calls without a tool message: {', '.join(sorted(waiting))}.", param="messages")
