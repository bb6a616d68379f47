"""A model call leaves the same behind whoever makes it: a span of its kind of failure, its duration, its tokens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from langchain_core.messages import HumanMessage
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from prometheus_client import REGISTRY

from services.kit.errors import SignalboxError
from services.kit.models.completions import Completions, Endpoint
from services.kit.models.verdict_model import ModelClient, ModelFailure
from services.runtime.calls.chat_model import ChatModel
from services.runtime.routing.calls import collecting
from tests.fixtures.scripted_model import ScriptedModel
from tests.fixtures.scripted_replies import Reply

MODEL, PURPOSE = "m", "a_purpose_of_tests"
SECRET = "what only the endpoint knows"
Ask = Callable[..., Awaitable[object]]


async def by_a_service(base_url: str, retries: int = 0) -> object:
    """Asks as guard and evaluator do."""
    client = ModelClient(Completions(Endpoint(base_url, "", 30, retries)), MODEL)
    try:
        return await client.complete(PURPOSE, system="s", user="u")
    finally:
        await client.close()


async def by_a_node(base_url: str, retries: int = 0) -> object:
    """Asks as nodes do."""
    completions = Completions(Endpoint(base_url, "", 30, retries))
    try:
        return await ChatModel(completions, MODEL).ask(PURPOSE, [HumanMessage("u")])
    finally:
        await completions.close()


ASKS = pytest.mark.parametrize("ask", [by_a_service, by_a_node])


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans of model calls."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("services.kit.models.call.tracer", lambda: provider.get_tracer("tests"))
    yield exporter
    provider.shutdown()


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel() as made:
        yield made


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    [span] = spans.get_finished_spans()
    assert span.name == f"chat {MODEL}"
    return span


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"signalbox_model_{name}", {"purpose": PURPOSE, **labels}) or 0.0


def figures() -> dict[str, float]:
    """What the metrics say of the purpose."""
    return {
        "ok": counted("call_duration_seconds_count", outcome="ok"),
        "error": counted("call_duration_seconds_count", outcome="error"),
        "input": counted("tokens_total", direction="input"),
        "output": counted("tokens_total", direction="output"),
    }


@ASKS
async def test_an_answer(model: ScriptedModel, spans: InMemorySpanExporter, ask: Ask) -> None:
    model.script(MODEL, [Reply.text("yes")])
    before = figures()
    await ask(model.base_url)
    span, after = only(spans), figures()
    told = dict(span.attributes or {})
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.request.model"] == MODEL
    made = {name: after[name] - before[name] for name in after}
    assert (made["ok"], made["error"]) == (1, 0)
    assert (made["input"], made["output"]) == (
        told["gen_ai.usage.input_tokens"],
        told["gen_ai.usage.output_tokens"],
    )
    assert min(made["input"], made["output"]) > 0
    assert span.status.status_code is StatusCode.UNSET


@ASKS
async def test_what_an_endpoint_had_cached_of_the_input(spans: InMemorySpanExporter, ask: Ask) -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 8},
    }

    async def answer(_request: web.Request) -> web.Response:
        message = {"role": "assistant", "content": "yes"}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    async with TestServer(app) as server:
        await ask(str(server.make_url("/v1")))
    assert [value for name, value in dict(only(spans).attributes or {}).items() if "cache" in name] == [8]


@ASKS
@pytest.mark.parametrize("status", [400, 503])
async def test_a_failure_is_named_by_its_kind_alone(
    model: ScriptedModel, spans: InMemorySpanExporter, ask: Ask, status: int
) -> None:
    model.script(MODEL, [Reply.http_error(status, SECRET)])
    before = figures()
    with pytest.raises(SignalboxError):
        await ask(model.base_url)
    span, after = only(spans), figures()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, f"http_{status}")
    assert not span.events
    assert {name: after[name] - before[name] for name in after} == {"ok": 0, "error": 1, "input": 0, "output": 0}


@ASKS
async def test_what_an_answer_of_nothing_took_is_charged_though_an_outage_follows(
    model: ScriptedModel, spans: InMemorySpanExporter, ask: Ask
) -> None:
    usage = {"prompt_tokens": 40, "completion_tokens": 3, "total_tokens": 43}
    nothing = Reply.raw(json.dumps({"choices": [{"message": {"content": None}}], "usage": usage}))
    model.script(MODEL, [nothing, Reply.http_error(503), Reply.http_error(503)])
    before = figures()
    with collecting() as calls, pytest.raises(SignalboxError) as caught:
        await ask(model.base_url, retries=1)
    after = figures()
    assert {name: after[name] - before[name] for name in after} == {"ok": 0, "error": 1, "input": 40, "output": 3}
    assert dict(only(spans).attributes or {})["gen_ai.usage.input_tokens"] == 40
    if isinstance(caught.value, ModelFailure):
        took = caught.value.took
        charged = [(took.input_tokens, took.output_tokens)] if took else []
    else:
        charged = [(call["input_tokens"], call["output_tokens"]) for call in calls]
    assert charged == [(40, 3)]
