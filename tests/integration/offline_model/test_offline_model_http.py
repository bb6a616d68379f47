"""The offline model over HTTP, seen through the clients that the services use, and as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from opentelemetry.sdk.trace import TracerProvider
from pydantic import SecretStr

from services.kit.models.prompts import data_block, with_data
from services.local.database import WORLD_VOCABULARY
from services.offline_model.app import make_app
from services.offline_model.conversation import Answer, Conversation
from services.offline_model.server import running
from services.offline_model.settings import OfflineModelSettings
from services.offline_model.skills import make_skills
from services.offline_model.vocabulary import Vocabulary

AGENT = "signalbox-offline-agent"
GUARD = "signalbox-offline-guard"
FORMAT = "signalbox-offline-format"
SYSTEM = with_data(
    "You answer questions.",
    {
        "examples": [
            {
                "question": "Count devices with temperature > 10",
                "sql": "SELECT count(*) FROM d WHERE temperature > 10",
            }
        ]
    },
)
ASKED = "Count devices with temperature > 12"
QUESTION = data_block({"question": ASKED})
TO_SCREEN = data_block({"kind": "question", "text": "How many devices?", "caller": "27"})
SCREENED: list[Any] = [{"role": "user", "content": TO_SCREEN}]
MESSAGES: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "A tool.",
            "parameters": {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]},
        },
    }
    for name, argument in (("get_few_shot_examples", "question"), ("execute_db_query", "query"))
]
SQL = "SELECT count(*) FROM d WHERE temperature > 12"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with running(OfflineModelSettings(vocabulary_file=WORLD_VOCABULARY, max_request_bytes=64 * 1024)) as server:
        yield f"http://{server.address}"


@pytest.fixture
async def sdk(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        yield client


async def test_a_skill_that_computes_for_long_holds_up_nobody_else() -> None:
    asked, may_end = threading.Event(), threading.Event()

    def slow(conversation: Conversation) -> Answer:
        del conversation
        asked.set()
        return Answer("done" if may_end.wait(60) else "nobody else was answered")

    transport = httpx.ASGITransport(make_app({"slow": slow}, max_request_bytes=1024))
    async with httpx.AsyncClient(transport=transport, base_url="http://model.invalid", timeout=60) as client:
        body = {"model": "slow", "messages": [{"role": "user", "content": "?"}]}
        answer = asyncio.create_task(client.post("/v1/chat/completions", json=body))
        assert await asyncio.to_thread(asked.wait, 60)
        assert (await client.get("/healthz")).status_code == 200
        may_end.set()
        assert (await answer).json()["choices"][0]["message"]["content"] == "done"


async def test_tool_calls_with_usage(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(model=AGENT, messages=MESSAGES, tools=TOOLS)
    [choice] = answer.choices
    [call] = choice.message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("execute_db_query", {"query": SQL})
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    usage = answer.usage
    assert usage is not None
    assert usage.prompt_tokens > 60
    assert usage.completion_tokens > 5
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


async def test_max_tokens_cut_the_answer(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(model=AGENT, messages=MESSAGES, max_tokens=3)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


async def test_tool_choice(sdk: openai.AsyncOpenAI) -> None:
    none = await sdk.chat.completions.create(model=AGENT, messages=MESSAGES, tools=TOOLS, tool_choice="none")
    assert none.choices[0].message.tool_calls is None
    named = await sdk.chat.completions.create(
        model=AGENT,
        messages=[{"role": "user", "content": data_block({"question": "Tell me"})}],
        tools=TOOLS,
        tool_choice={"type": "function", "function": {"name": "get_few_shot_examples"}},
    )
    assert [call.function.name for call in named.choices[0].message.tool_calls or [] if call.type == "function"] == [
        "get_few_shot_examples"
    ]
    with pytest.raises(openai.BadRequestError, match="has nothing to call a tool with") as caught:
        await sdk.chat.completions.create(model=GUARD, messages=SCREENED, tools=TOOLS, tool_choice="required")
    assert caught.value.code == "tool_choice_not_met"


async def test_langchain_goes_through_a_whole_talk(url: str) -> None:
    def chat(model: str) -> ChatOpenAI:
        return ChatOpenAI(
            model=model, base_url=f"{url}/v1", api_key=SecretStr("any"), use_responses_api=False,
            timeout=60, max_retries=0,
        )  # fmt: skip

    messages = [SystemMessage(SYSTEM), HumanMessage(QUESTION)]
    asked = await chat(AGENT).bind_tools(TOOLS).ainvoke(messages)
    assert isinstance(asked, AIMessage)
    [call] = asked.tool_calls
    assert (call["name"], call["args"]) == ("execute_db_query", {"query": SQL})
    assert asked.usage_metadata is not None
    assert asked.usage_metadata["total_tokens"] > 0
    result = ToolMessage("rows: 1\ndevices\n4", tool_call_id=call["id"])
    told = await chat(AGENT).bind_tools(TOOLS).ainvoke([*messages, asked, result])
    assert told.text == "There are 4 devices with temperature > 12."
    given = {"question": ASKED, "sql_query": SQL, "result": result.text.splitlines()}
    worded = await chat(FORMAT).ainvoke(data_block(given))
    assert worded.text == told.text


async def test_its_health_can_be_asked(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).json() == {"status": "ok"}


async def test_an_unknown_model_is_refused(sdk: openai.AsyncOpenAI) -> None:
    names = ", ".join(sorted(make_skills(Vocabulary())))
    with pytest.raises(openai.NotFoundError, match=f"does not exist; there are: {names}") as caught:
        await sdk.chat.completions.create(model="gpt-5", messages=MESSAGES)
    assert caught.value.code == "model_not_found"


USER = {"role": "user", "content": "hi"}
CALLING = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{"}}]}


@pytest.mark.parametrize(
    ("changes", "param", "told"),
    [
        ({"model": None}, "model", "valid string"),
        ({"model": ""}, "model", "at least 1"),
        ({"messages": None}, "messages", "valid list"),
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": ["hi"]}, "messages.0", "valid dictionary"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "messages.0.role", "'system'"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages.0.content", "valid string"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content", "type text"),
        ({"messages": [USER, {"role": "tool", "tool_call_id": "a", "content": "x"}]}, "messages.1", "must follow"),
        ({"messages": [USER, CALLING, USER]}, "messages.2", "without a tool message: a"),
        ({"messages": [USER, CALLING]}, "messages", "without a tool message: a"),
        ({"n": 2}, "n", "should be 1"),
        ({"stream": True}, "stream", "should be False"),
        ({"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
        ({"logprobs": True}, "logprobs", "should be False"),
        ({"response_format": {"type": "json_object"}}, "response_format.type", "should be 'text'"),
        ({"tools": [{"type": "web"}]}, "tools.0.type", "'function'"),
        ({"tools": [*TOOLS, *TOOLS]}, "tools", "same name"),
        ({"tool_choice": "required"}, "tool_choice", "demands a tool"),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}},
            "tool_choice",
            "not in tools",
        ),
    ],
)
async def test_bad_requests_name_the_field(
    http: httpx.AsyncClient, changes: dict[str, Any], param: str, told: str
) -> None:
    response = await http.post("/v1/chat/completions", json={"model": AGENT, "messages": [USER], **changes})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert told in error["message"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"\xff\xfe", "not valid JSON"),
    ],
)
async def test_bodies_that_are_no_request(http: httpx.AsyncClient, body: bytes, told: str) -> None:
    response = await http.post("/v1/chat/completions", content=body)
    assert response.status_code == 400
    assert told in response.json()["error"]["message"]


async def test_other_refusals(http: httpx.AsyncClient) -> None:
    large = await http.post("/v1/chat/completions", content=b"x" * 70_000)
    assert (large.status_code, large.json()["error"]["code"]) == (413, "request_too_large")
    missing = await http.get("/v1/embeddings")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_url")
    method = await http.get("/v1/chat/completions")
    assert (method.status_code, method.json()["error"]["code"]) == (404, "unknown_url")


async def test_content_parts_are_read(http: httpx.AsyncClient) -> None:
    asked = data_block({"kind": "question", "text": "devices of user 31", "caller": "27"})
    first, _, rest = asked.partition("\n")
    parts = [{"type": "text", "text": first}, {"type": "text", "text": rest}]
    body = {"model": GUARD, "messages": [{"role": "user", "content": parts}]}
    answer = (await http.post("/v1/chat/completions", json=body)).json()
    assert answer["choices"][0]["message"]["content"] == "BLOCK"


def _wait_for(path: Path) -> dict[str, Any]:
    """Polls for a ready file; called in a thread."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, "the server did not get ready"
        time.sleep(0.05)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


async def test_as_a_process_it_says_when_it_is_ready_and_ends_on_sigterm(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.offline_model",
        env={**os.environ, "SIGNALBOX_READY_FILE": str(ready)}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    trace_id = f"{TracerProvider().id_generator.generate_trace_id():032x}"
    headers = {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01", "baggage": "signalbox.run_id=run-7"}
    try:
        addresses = await asyncio.to_thread(_wait_for, ready)
        assert addresses["pid"] == process.pid
        async with httpx.AsyncClient(base_url=f"http://{addresses['listen']}", timeout=60, headers=headers) as http:
            answer = await http.post("/v1/chat/completions", json={"model": GUARD, "messages": SCREENED})
            assert answer.json()["choices"][0]["message"]["content"] == "ALLOW"
            metrics = (await http.get(f"http://{addresses['metrics']}/metrics")).text
        assert f'signalbox_offline_model_completions_total{{model="{GUARD}",reason="stop"}} 1.0' in metrics
    finally:
        process.send_signal(signal.SIGTERM)
        _, logged = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    lines = [json.loads(line) for line in logged.decode().splitlines()]
    [completed] = [line for line in lines if line["event"] == "completed"]
    assert (completed["trace_id"], completed["run_id"], completed["service"]) == (trace_id, "run-7", "offline_model")


async def test_wrong_settings_end_the_process() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.offline_model",
        env={**os.environ, "SIGNALBOX_LISTEN": "nowhere"}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, told = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2
    assert told.decode().startswith("SIGNALBOX_LISTEN: ")
