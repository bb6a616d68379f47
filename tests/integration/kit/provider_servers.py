"""Small servers that answer as providers with an API of their own document it: Anthropic, Amazon Bedrock, Google."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

Body = dict[str, Any]
# What every answer says that it took: of the input, eight were in the provider's cache.
INPUT, OUTPUT, CACHED = 9, 2, 8


@dataclass(frozen=True)
class Words:
    """A part of an answer that is said, or thought."""

    text: str
    thought: bool = False


@dataclass(frozen=True)
class Call:
    """A part of an answer that calls a tool."""

    name: str
    arguments: Body
    id: str = "call_1"


@dataclass(frozen=True)
class Reply:
    """What is answered to one request: a body as it is, or parts, that may come as a stream.

    breaks_with: the stream's error in the middle of the first part; an empty one ends it there without a word.
    """

    status: int = 200
    body: Body | str = ""
    parts: Sequence[Words | Call] | None = None
    end: str = ""
    breaks_with: str | None = None


def said(*parts: Words | Call, end: str = "") -> Reply:
    """An answer; `end` is the provider's own word for why it ended."""
    return Reply(parts=parts, end=end)


class Provider(ABC):
    """A server: refuses what the provider refuses, gives its replies in order, and the last one again and again."""

    stream_type = "text/event-stream"
    # The provider's words for it: a client's fault, its being busy, and a prompt that is too long.
    refusals: Sequence[tuple[int, str]]
    outages: Sequence[tuple[int, str]]
    # What a stream may say after it has begun: that there is too much to do.
    busy_in_stream: str
    too_long: Reply
    # How it calls the model that answered, and why answers end that are not whole.
    model: str
    cut: Sequence[str]
    unread: Reply

    def __init__(self) -> None:
        self.replies: Sequence[Reply] = ()
        self.asked: list[tuple[str, Body]] = []
        self.base_url = ""
        # Set where a request is left without an answer until whoever asked goes away.
        self.given_up: asyncio.Event | None = None

    @property
    @abstractmethod
    def parameters(self) -> Body:
        """What a model is made with."""

    @abstractmethod
    def problem(self, request: web.Request, body: Body) -> Reply | None:
        """Returns how the provider refuses a request; None of one that it takes."""

    @abstractmethod
    def error(self, status: int, kind: str, message: str = "it says no") -> Reply:
        """Returns how the provider says no."""

    @abstractmethod
    def whole(self, reply: Reply) -> Body:
        """Returns an answer as one body."""

    @abstractmethod
    def streamed(self, reply: Reply) -> Iterable[bytes]:
        """Yields an answer as a stream."""

    def streams(self, request: web.Request, body: Body) -> bool:
        """Tells whether a stream is asked for: by a parameter, or by the path."""
        return bool(body.get("stream")) or request.path.endswith(("/converse-stream", ":streamGenerateContent"))

    @abstractmethod
    def form_of(self, path: str, body: Body) -> Body:
        """Returns what a request says to the model apart from the messages, if its form and path are right."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answers one request."""
        body = await request.json()
        self.asked.append((request.path, body))
        if self.given_up:
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up.set()
        reply = self.problem(request, body) or self.replies[min(len(self.asked), len(self.replies)) - 1]
        if reply.parts is not None and self.streams(request, body):
            response = web.StreamResponse(headers={"Content-Type": self.stream_type})
            await response.prepare(request)
            for chunk in self.streamed(reply):
                await response.write(chunk)
            return response
        content = self.whole(reply) if reply.parts is not None else reply.body
        text = content if isinstance(content, str) else json.dumps(content)
        headers = {"x-amzn-errortype": content["__type"]} if isinstance(content, dict) and "__type" in content else None
        return web.Response(status=reply.status, text=text, content_type="application/json", headers=headers)


@asynccontextmanager
async def serving(provider: Provider) -> AsyncIterator[Provider]:
    """Has a provider listen on loopback inside the context."""
    app = web.Application()
    app.router.add_post("/{path:.*}", provider.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    provider.base_url = f"http://{host}:{port}"
    yield provider
    await runner.cleanup()


def _events(named: Iterable[Body]) -> Iterable[bytes]:
    for event in named:
        name = f"event: {event['type']}\n" if "type" in event else ""
        yield f"{name}data: {json.dumps(event)}\n\n".encode()


class Anthropic(Provider):
    """https://docs.anthropic.com/en/api/messages, /errors and /messages-streaming."""

    refusals = ((400, "invalid_request_error"), (401, "authentication_error"), (403, "permission_error"))
    outages = ((429, "rate_limit_error"), (500, "api_error"), (529, "overloaded_error"))
    busy_in_stream = "overloaded_error"
    too_long = Reply(
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 204018 tokens > "
         "200000 maximum"}},
    )  # fmt: skip
    model = "claude-sonnet-4-5-20250929"
    cut = ("max_tokens", "refusal", "model_context_window_exceeded", "pause_turn")
    # Its streams' last counts are those of the whole answer; once they were of its output alone.
    counts_at_last = True

    @property
    def parameters(self) -> Body:
        """Of a model of Anthropic's."""
        return {"provider": "anthropic", "model": "claude-sonnet-4-5", "max_tokens": 4096, "api_key": "the-key",
                "base_url": self.base_url}  # fmt: skip

    def problem(self, request: web.Request, body: Body) -> Reply | None:
        """Refuses another key, a request without a limit, system messages among the others, results without calls."""
        keys = (request.headers.get("x-api-key"), request.headers.get("Authorization", "").removeprefix("Bearer "))
        if "the-key" not in keys or "anthropic-version" not in request.headers:
            return self.error(401, "authentication_error", "invalid x-api-key")
        if "max_tokens" not in body:
            return self.error(400, "invalid_request_error", "max_tokens: Field required")
        roles = [message["role"] for message in body["messages"]]
        if set(roles) - {"user", "assistant"} or roles[0] != "user":
            return self.error(400, "invalid_request_error", "messages: Unexpected role")
        blocks = [
            (at, block)
            for at, message in enumerate(body["messages"])
            if isinstance(message["content"], list)
            for block in message["content"]
        ]
        calls = {(at, block["id"]) for at, block in blocks if block["type"] == "tool_use"}
        results = {(at - 1, block["tool_use_id"]) for at, block in blocks if block["type"] == "tool_result"}
        if calls != results:
            return self.error(400, "invalid_request_error", "`tool_use` ids without `tool_result` blocks after")
        if calls and not body.get("tools"):
            return self.error(400, "invalid_request_error", "Requests with tool_use blocks must define tools")
        if any(block["type"] == "text" and not block["text"] for _, block in blocks):
            return self.error(400, "invalid_request_error", "text content blocks must be non-empty")
        return None

    def error(self, status: int, kind: str, message: str = "it says no") -> Reply:
        """As all its errors are."""
        return Reply(status, {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})

    def form_of(self, path: str, body: Body) -> Body:
        """The system prompt stands apart, and the limit is needed."""
        assert (path, body["max_tokens"]) == ("/v1/messages", 4096)
        choice = body["tool_choice"]
        return {"system": body["system"], "must_call": choice["name"] if choice["type"] == "tool" else None}

    @staticmethod
    def _block(part: Words | Call) -> Body:
        if isinstance(part, Call):
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments}
        if part.thought:
            return {"type": "thinking", "thinking": part.text, "signature": "c2ln"}
        return {"type": "text", "text": part.text}

    def whole(self, reply: Reply) -> Body:
        """One message."""
        parts = reply.parts or ()
        end = reply.end or ("tool_use" if any(isinstance(part, Call) for part in parts) else "end_turn")
        usage = {"input_tokens": INPUT - CACHED, "cache_read_input_tokens": CACHED, "output_tokens": OUTPUT}
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model,
                "content": [self._block(part) for part in parts], "stop_reason": end, "stop_sequence": None,
                "usage": usage}  # fmt: skip

    def streamed(self, reply: Reply) -> Iterable[bytes]:
        """Events with names."""
        return _events(self._stream(reply))

    def _stream(self, reply: Reply) -> Iterable[Body]:
        message = self.whole(reply)
        begun = {**message, "content": [], "stop_reason": None}
        yield {"type": "message_start", "message": {**begun, "usage": {**message["usage"], "output_tokens": 1}}}
        yield {"type": "ping"}
        for index, block in enumerate(message["content"]):
            of = {"index": index}
            kind = block["type"]
            empty: dict[str, Body] = {
                "tool_use": {"input": {}},
                "text": {"text": ""},
                "thinking": {"thinking": "", "signature": ""},
            }
            yield {"type": "content_block_start", **of, "content_block": {**block, **empty[kind]}}
            written = json.dumps(block["input"]) if kind == "tool_use" else block[kind]
            names = {"tool_use": ("input_json_delta", "partial_json"), "text": ("text_delta", "text")}
            delta, name = names.get(kind, ("thinking_delta", "thinking"))
            for piece in _in_two(written):
                yield {"type": "content_block_delta", **of, "delta": {"type": delta, name: piece}}
            if reply.breaks_with is not None:
                if reply.breaks_with:
                    yield {"type": "error", "error": {"type": reply.breaks_with, "message": "it is busy"}}
                return
            yield {"type": "content_block_stop", **of}
        used = message["usage"] if self.counts_at_last else {"output_tokens": message["usage"]["output_tokens"]}
        yield {"type": "message_delta", "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
               "usage": used}  # fmt: skip
        yield {"type": "message_stop"}


def _in_two(text: str) -> tuple[str, str]:
    middle = len(text) // 2
    return text[:middle], text[middle:]


class Bedrock(Provider):
    """https://docs.aws.amazon.com/bedrock/latest/APIReference, Converse and ConverseStream."""

    stream_type = "application/vnd.amazon.eventstream"
    refusals = ((400, "ValidationException"), (403, "AccessDeniedException"), (404, "ResourceNotFoundException"))
    outages = (
        (408, "ModelTimeoutException"),
        (424, "ModelErrorException"),
        (429, "ThrottlingException"),
        (429, "ModelNotReadyException"),
        (500, "InternalServerException"),
        (503, "ServiceUnavailableException"),
    )
    busy_in_stream = "throttlingException"
    too_long = Reply(400, {"__type": "ValidationException", "message": "Input is too long for requested model."})
    model = "amazon.nova-pro-v1:0"
    cut = ("max_tokens", "guardrail_intervened", "content_filtered", "model_context_window_exceeded")
    unread = Reply(parts=(), end="malformed_tool_use")
    _SCOPE: Final = "eu-central-1/bedrock/aws4_request"

    @property
    def parameters(self) -> Body:
        """Of a model of Amazon's."""
        keys = {"aws_access_key_id": "AKID", "aws_secret_access_key": "the-key"}
        return {"provider": "bedrock_converse", "model": self.model, "max_tokens": 4096,
                "base_url": self.base_url, "options": {"region_name": "eu-central-1", **keys}}  # fmt: skip

    def problem(self, request: web.Request, body: Body) -> Reply | None:
        """Refuses what is not signed, system messages among the others, turns that don't alternate, calls untold."""
        signed = request.headers.get("Authorization", "")
        if not signed.startswith("AWS4-HMAC-SHA256 Credential=AKID/") or f"/{self._SCOPE}," not in signed:
            return self.error(403, "UnrecognizedClientException", "The security token in the request is invalid.")
        roles = [message["role"] for message in body["messages"]]
        if roles != [("user", "assistant")[at % 2] for at in range(len(roles))]:
            return self.error(400, "ValidationException", "A conversation must alternate between user and assistant.")
        blocks = [block for message in body["messages"] for block in message["content"]]
        if any("toolUse" in block or "toolResult" in block for block in blocks) and "toolConfig" not in body:
            words = "The toolConfig field must be defined when using toolUse and toolResult content blocks."
            return self.error(400, "ValidationException", words)
        if any(block.get("text") == "" for block in blocks):
            return self.error(400, "ValidationException", "The text field in the ContentBlock object is blank.")
        return None

    def error(self, status: int, kind: str, message: str = "it says no") -> Reply:
        """As all its errors are."""
        return Reply(status, {"__type": kind, "message": message})

    def form_of(self, path: str, body: Body) -> Body:
        """The system prompt stands apart."""
        assert (path.rpartition("/")[2], body["inferenceConfig"]["maxTokens"]) == ("converse", 4096)
        [system] = body["system"]
        return {"system": system["text"], "must_call": body["toolConfig"]["toolChoice"]["tool"]["name"]}

    @staticmethod
    def _block(part: Words | Call) -> Body:
        if isinstance(part, Call):
            return {"toolUse": {"toolUseId": part.id, "name": part.name, "input": part.arguments}}
        if part.thought:
            return {"reasoningContent": {"reasoningText": {"text": part.text, "signature": "sig"}}}
        return {"text": part.text}

    def whole(self, reply: Reply) -> Body:
        """One message."""
        parts = reply.parts or ()
        end = reply.end or ("tool_use" if any(isinstance(part, Call) for part in parts) else "end_turn")
        message = {"role": "assistant", "content": [self._block(part) for part in parts]}
        return {"output": {"message": message}, "stopReason": end, "usage": self._usage(),
                "metrics": {"latencyMs": 5}}  # fmt: skip

    @staticmethod
    def _usage() -> Body:
        return {"inputTokens": INPUT - CACHED, "cacheReadInputTokens": CACHED, "cacheWriteInputTokens": 0,
                "outputTokens": OUTPUT, "totalTokens": INPUT + OUTPUT}  # fmt: skip

    def streamed(self, reply: Reply) -> Iterable[bytes]:
        """Messages of Amazon's own framing."""
        yield _framed("messageStart", {"role": "assistant"})
        for index, part in enumerate(reply.parts or ()):
            of = {"contentBlockIndex": index}
            if isinstance(part, Call):
                start = {"toolUse": {"toolUseId": part.id, "name": part.name}}
                yield _framed("contentBlockStart", {**of, "start": start})
                pieces: Iterable[Body] = [{"toolUse": {"input": each}} for each in _in_two(json.dumps(part.arguments))]
            elif part.thought:
                pieces = [{"reasoningContent": {"text": part.text}}, {"reasoningContent": {"signature": "sig"}}]
            else:
                pieces = [{"text": each} for each in _in_two(part.text)]
            for piece in pieces:
                yield _framed("contentBlockDelta", {**of, "delta": piece})
            if reply.breaks_with is not None:
                if reply.breaks_with:
                    yield _framed(reply.breaks_with, {"message": "it is busy"}, kind="exception")
                return
            yield _framed("contentBlockStop", of)
        yield _framed("messageStop", {"stopReason": self.whole(reply)["stopReason"]})
        yield _framed("metadata", {"usage": self._usage(), "metrics": {"latencyMs": 5}})


def _framed(name: str, payload: Body, kind: str = "event") -> bytes:
    """Returns a message of application/vnd.amazon.eventstream: lengths, headers and body, each with a checksum."""
    named = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    headers = b"".join(
        struct.pack("!B", len(key)) + key.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        for key, value in named.items()
    )
    content = json.dumps(payload).encode()
    lengths = struct.pack("!II", 16 + len(headers) + len(content), len(headers))
    message = lengths + struct.pack("!I", zlib.crc32(lengths)) + headers + content
    return message + struct.pack("!I", zlib.crc32(message))


class Google(Provider):
    """https://ai.google.dev/api/generate-content; with `vertexai` the same over Vertex's paths, with a key."""

    refusals = ((400, "INVALID_ARGUMENT"), (403, "PERMISSION_DENIED"), (404, "NOT_FOUND"))
    outages = ((429, "RESOURCE_EXHAUSTED"), (500, "INTERNAL"), (503, "UNAVAILABLE"))
    busy_in_stream = "UNAVAILABLE"
    too_long = Reply(
        400,
        {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (1200000) exceeds the "
         "maximum number of tokens allowed (1048576)."}},
    )  # fmt: skip
    model = "gemini-2.5-pro"
    cut = ("MAX_TOKENS", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION")
    unread = Reply(body={"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]})

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options

    @property
    def parameters(self) -> Body:
        """Of a model of Google's."""
        return {"provider": "google_genai", "model": self.model, "api_key": "the-key",
                "base_url": self.base_url, "options": self._options}  # fmt: skip

    def problem(self, request: web.Request, body: Body) -> Reply | None:
        """Refuses another key, and other roles."""
        if request.headers.get("x-goog-api-key") != "the-key":
            return self.error(400, "INVALID_ARGUMENT", "API key not valid.")
        if {content["role"] for content in body["contents"]} - {"user", "model", "function"}:
            return self.error(400, "INVALID_ARGUMENT", "Please use a valid role: user, model.")
        return None

    def error(self, status: int, kind: str, message: str = "it says no") -> Reply:
        """As all its errors are."""
        return Reply(status, {"error": {"code": status, "message": message, "status": kind}})

    def form_of(self, path: str, body: Body) -> Body:
        """The system prompt stands apart."""
        assert path.endswith("models/gemini-2.5-pro:generateContent")
        config = body["toolConfig"]["functionCallingConfig"]
        # The class writes it in both of the ways that JSON of protobufs has.
        [name] = config.get("allowedFunctionNames") or config["allowed_function_names"]
        [system] = body["systemInstruction"]["parts"]
        return {"system": system["text"], "must_call": name if config["mode"] == "ANY" else None}

    @staticmethod
    def _part(part: Words | Call) -> Body:
        if isinstance(part, Call):
            return {"functionCall": {"name": part.name, "args": part.arguments}}
        return {"text": part.text, "thought": True} if part.thought else {"text": part.text}

    def whole(self, reply: Reply) -> Body:
        """One candidate."""
        return self._candidate([self._part(part) for part in reply.parts or ()], reply.end or "STOP")

    @staticmethod
    def _candidate(parts: Sequence[Body], end: str | None) -> Body:
        usage = {"promptTokenCount": INPUT, "candidatesTokenCount": OUTPUT, "totalTokenCount": INPUT + OUTPUT,
                 "cachedContentTokenCount": CACHED}  # fmt: skip
        candidate: Body = {"content": {"role": "model", "parts": list(parts)}}
        if end is None:
            return {"candidates": [candidate]}
        return {"candidates": [{**candidate, "finishReason": end}], "usageMetadata": usage}

    def streamed(self, reply: Reply) -> Iterable[bytes]:
        """Answers of a part each, the last of which says why it ended."""
        parts = reply.parts or ()
        events = [self._candidate([self._part(part)], None) for part in parts]
        if reply.breaks_with is not None:
            busy = {"error": {"code": 503, "message": "it is busy", "status": reply.breaks_with}}
            yield from _events([*events[:1], *([busy] if reply.breaks_with else [])])
            return
        yield from _events([*events, self._candidate([], reply.end or "STOP")])
