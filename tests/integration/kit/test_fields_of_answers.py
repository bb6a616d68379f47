"""Whatever a field of an answer is, it is mended, or the failure has a name; nothing else comes of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from langchain_core.messages import HumanMessage

from services.kit.errors import SignalboxError
from services.kit.models.completions import Completions, Endpoint
from services.kit.models.verdict_model import ModelClient
from services.runtime.calls.chat_model import ChatModel, summary_of, whole_text

PARAMETERS: Final = {"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"]}
TOOL: Final = {"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}
CALL: Final = {"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
ANSWER: Final[dict[str, Any]] = {
    "id": "a", "object": "chat.completion", "created": 1, "model": "m", "system_fingerprint": "f",
    "service_tier": "flex",
    "choices": [
        {
            "index": 0, "logprobs": None, "finish_reason": "stop",
            "message": {
                "role": "assistant", "content": "hi", "refusal": None, "reasoning_content": "hm", "annotations": [],
                "audio": None, "function_call": None, "tool_calls": [CALL],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, "prompt_tokens_details": {"cached_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 1},
    },
}  # fmt: skip
ODD: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 1.5, 1e308, 10**30, "", "x", "\ud83d", [], {}, [None], [{}], {"a": None}, "x" * 3000,
    [{"type": "tool_use"}],
)  # fmt: skip
Path = tuple[str | int, ...]


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yields where each part of an answer stands."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inner:
        yield from paths(part, (*path, name))


def with_part(path: Path, part: Any) -> Any:
    """Returns the answer with another part."""
    if not path:
        return part
    made = copy.deepcopy(ANSWER)
    around: Any = made
    for name in path[:-1]:
        around = around[name]
    around[path[-1]] = part
    return made


@pytest.mark.parametrize("path", [*paths(ANSWER)], ids=lambda path: ".".join(map(str, path)) or "all")
async def test_any_field_may_be_anything(path: Path) -> None:
    answers = [json.dumps(with_part(path, part)) for part in ODD]

    async def answer(request: web.Request) -> web.Response:
        number = int((await request.json())["messages"][0]["content"])
        return web.Response(text=answers[number], content_type="application/json")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    async with TestServer(app) as server:
        completions = Completions(Endpoint(str(server.make_url("/v1")), "", 30, 0))
        node, judge = ChatModel(completions, "m"), ModelClient(completions, "m")
        for number in range(len(ODD)):
            with suppress(SignalboxError):
                said, call = await node.ask("plan", [HumanMessage(str(number))], [TOOL])
                # What is kept and told of it can be written down.
                assert json.loads(json.dumps([call, whole_text(said), summary_of(said)]).encode())
                assert said.model_dump_json().encode()
                assert call["input_tokens"] + call["output_tokens"] > 0
            with suppress(SignalboxError):
                completion = await judge.complete("critique", system=str(number), user="u")
                assert completion.text == completion.text.encode().decode()
        await completions.close()
