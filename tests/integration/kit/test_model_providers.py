"""Models by their parameters, each against a server that answers as its provider says it does."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from enum import StrEnum
from typing import Any

import pytest
from aiohttp import web
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from prometheus_client import REGISTRY

from services.kit.models.answers import mend
from services.kit.models.chain import ASKED, ModelChain
from services.kit.models.completions import CUT_SHORT, TOOL_USE_FAILED, CompletionError
from services.kit.models.parameters import ModelParameters, OneModel, parameters_of, problems_of_models

Body = dict[str, Any]
# None: taken. Else the status and the error that the provider answers with.
Refusal = tuple[int, Mapping[str, Any]] | None
ANSWER = {
    "model": "as-it-is-called-there",
    "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 8}},
}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
CALLED = {"id": "call-1-0", "type": "function", "function": {"name": "look", "arguments": "not JSON"}}
HISTORY: list[Body] = [
    {"role": "system", "content": "You look."},
    {"role": "user", "content": "Look."},
    {"role": "assistant", "content": "", "tool_calls": [CALLED]},
    {"role": "tool", "tool_call_id": "call-1-0", "content": "error: not JSON"},
    {"role": "system", "content": "Be brief."},
]
ASKED_FOR: Body = {"model": "", "messages": HISTORY, "tools": [TOOL], "temperature": 0, "max_tokens": 256}


class Provider:
    """A server that refuses what a provider refuses, and keeps what it took."""

    def __init__(self, refuses: Callable[[web.Request, Body], Refusal]) -> None:
        self._refuses = refuses
        self.taken: list[Body] = []
        self.base_url = ""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        refused = self._refuses(request, body)
        if refused:
            return web.json_response({"error": refused[1]}, status=refused[0])
        self.taken.append(body)
        return web.json_response(ANSWER)


Serve = Callable[[Callable[[web.Request, Body], Refusal]], Any]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    runners: list[web.AppRunner] = []

    async def started(refuses: Callable[[web.Request, Body], Refusal]) -> Provider:
        made = Provider(refuses)
        app = web.Application()
        app.router.add_post("/{path:.*}/chat/completions", made.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        made.base_url = f"http://{host}:{port}/v1"
        return made

    yield started
    for runner in runners:
        await runner.cleanup()


async def ask(parameters: ModelParameters, **more: Any) -> Body:
    chain = ModelChain("plan", parameters, timeout_s=30, retries=0, **more)
    try:
        return await chain.create(ASKED_FOR)
    finally:
        await chain.close()


def unsupported(name: str) -> Refusal:
    return 400, {"message": f"Unsupported parameter: '{name}'", "code": "unsupported_value", "param": name}


def reasoning(_: web.Request, body: Body) -> Refusal:
    """OpenAI's o-series and gpt-5."""
    return next((unsupported(name) for name in ("temperature", "max_tokens") if name in body), None)


def azure(request: web.Request, _: Body) -> Refusal:
    right = request.headers.get("api-key") == "k" and request.query.get("api-version") == "2024-10-21"
    return (
        None if right and "Authorization" not in request.headers else (401, {"message": "Access denied", "code": "401"})
    )


def mistral(_: web.Request, body: Body) -> Refusal:
    known = {"model", "messages", "tools", "tool_choice", "temperature", "max_tokens", "reasoning_effort"}
    if unknown := set(body) - known:
        return 422, {"message": f"Extra inputs are not permitted: {sorted(unknown)}"}
    ids = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    ids += [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
    wrong = [one for one in ids if not re.fullmatch("[a-zA-Z0-9]{9}", one)]
    return (
        (400, {"message": f"Tool call id was {wrong[0]} but must be a-z, A-Z, 0-9, with a length of 9."})
        if wrong
        else None
    )


def vllm(_: web.Request, body: Body) -> Refusal:
    """Its templates read the arguments of calls, and some take a system message at the beginning alone."""
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            if not call["function"]["arguments"].startswith("{"):
                return 400, {"message": "Expecting value: line 1 column 1 (char 0)", "code": 400}
    roles = [message["role"] for message in body["messages"]]
    return (400, {"message": "System message must be at the beginning."}) if "system" in roles[1:] else None


def anything(_: web.Request, __: Body) -> Refusal:
    return None


@pytest.mark.parametrize(
    ("provider", "given", "takes"),
    [
        (anything, {}, {"temperature": 0, "max_tokens": 256}),
        (reasoning, {"temperature": None, "max_tokens_as": "max_completion_tokens", "reasoning_effort": "low"},
         {"max_completion_tokens": 256, "reasoning_effort": "low"}),
        (azure, {"key_header": "api-key", "query": {"api-version": "2024-10-21"}}, {}),
        (mistral, {}, {"max_tokens": 256}),
        (vllm, {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
         {"chat_template_kwargs": {"enable_thinking": False}}),
        (anything, {"max_tokens_as": ""}, {}),
        (anything, {"max_tokens": 4096, "prompt_cache": "key"},
         {"max_tokens": 4096, "prompt_cache_key": "signalbox-plan"}),
    ],
    ids=["plain", "OpenAI, reasoning", "Azure", "Mistral", "vLLM", "Ollama", "OpenAI, cache"],
)  # fmt: skip
async def test_a_provider_takes_what_its_parameters_make_of_a_request(
    serve: Serve, provider: Callable[[web.Request, Body], Refusal], given: Body, takes: Body
) -> None:
    at = await serve(provider)
    answer = await ask(ModelParameters(model="m", base_url=at.base_url, api_key="k", **given))
    assert answer[ASKED] == "m"
    [body] = at.taken
    assert takes.items() <= body.items()
    plain = {"temperature", "max_tokens"} - ({"temperature"} if "temperature" in given else set())
    plain -= {"max_tokens"} if "max_tokens_as" in given else set()
    assert set(body) == {"model", "messages", "tools"} | set(takes) | plain
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert body["messages"][0]["content"] == "You look.\n\nBe brief."
    [call] = body["messages"][2]["tool_calls"]
    assert call["id"] == body["messages"][3]["tool_call_id"]


@pytest.mark.parametrize(("provider", "given"), [(reasoning, {}), (azure, {})])
async def test_what_a_provider_does_not_take_is_refused_in_its_words(
    serve: Serve, provider: Callable[[web.Request, Body], Refusal], given: Body
) -> None:
    at = await serve(provider)
    with pytest.raises(CompletionError, match=r"Unsupported parameter|Access denied") as caught:
        await ask(ModelParameters(model="m", base_url=at.base_url, api_key="k", **given))
    assert not caught.value.retryable


async def test_the_system_message_is_marked_where_a_cache_wants_that(serve: Serve) -> None:
    at = await serve(anything)
    await ask(ModelParameters(model="m", base_url=at.base_url, prompt_cache="breakpoint"))
    [part] = at.taken[0]["messages"][0]["content"]
    assert part == {"type": "text", "text": "You look.\n\nBe brief.", "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(("characters", "cut"), [(100, 0), (60_000, 1)])
async def test_a_server_that_cuts_prompts_in_silence_is_told_of(serve: Serve, characters: int, cut: int) -> None:
    """Ollama, unless its context is set: it says how much it read."""

    def counted() -> float:
        return REGISTRY.get_sample_value("signalbox_model_prompts_cut_total") or 0

    at, before = await serve(anything), counted()
    chain = ModelChain("plan", ModelParameters(model="m", base_url=at.base_url), timeout_s=30, retries=0)
    await chain.create({"messages": [{"role": "user", "content": "x" * characters}]})
    await chain.close()
    assert counted() - before == cut


def failing(status: int) -> Callable[[web.Request, Body], Refusal]:
    return lambda _, __: (status, {"message": "no"})


@pytest.mark.parametrize(
    ("status", "after", "answers"),
    [(503, ("away",), True), (503, ("refused",), False), (401, ("away",), False), (401, ("away", "refused"), True)],
)
async def test_the_next_model_is_asked_after_the_failures_that_are_named(
    serve: Serve, status: int, after: tuple[str, ...], answers: bool
) -> None:
    first, second = await serve(failing(status)), await serve(anything)
    noted: list[tuple[str, str]] = []
    parameters = parameters_of(
        "plan",
        {"plan": {"model": "big", "base_url": first.base_url, "api_key": "secret", "fallback_after": after,
                  "fallbacks": [{"model": "small", "base_url": second.base_url}]}},
        ModelParameters(model="m", base_url="http://127.0.0.1:1", api_key="other"),
    )  # fmt: skip
    asking = ask(parameters, noted=lambda model, error, _: noted.append((model, error.kind)))
    if not answers:
        with pytest.raises(CompletionError):
            await asking
        assert (second.taken, noted) == ([], [])
        return
    answer = await asking
    assert (answer[ASKED], second.taken[0]["model"], noted) == ("small", "small", [("big", f"http_{status}")])


async def test_who_was_away_rests_while_another_answers(serve: Serve) -> None:
    asked = 0

    def away(_: web.Request, __: Body) -> Refusal:
        nonlocal asked
        asked += 1
        return 503, {"message": "no"}

    first, second = await serve(away), await serve(anything)
    other, now = OneModel(model="b", base_url=second.base_url), 0.0
    chain = ModelChain(
        "plan",
        ModelParameters(model="a", base_url=first.base_url, fallbacks=(other,)),
        timeout_s=30, retries=0, clock=lambda: now,
    )  # fmt: skip
    for _ in range(3):
        assert (await chain.create(ASKED_FOR))[ASKED] == "b"
    assert asked == 1
    now = 1000.0
    await chain.create(ASKED_FOR)
    assert asked == 2
    await chain.close()


def test_a_role_takes_nothing_of_another_ones_endpoint() -> None:
    otherwise = ModelParameters(model="m", base_url="http://a", api_key="secret")
    given = {
        "default": {"reasoning_effort": "low", "query": {"v": "1"}},
        "plan": {"model": "p", "base_url": "http://b"},
    }
    plan, parse = parameters_of("plan", given, otherwise), parameters_of("parse", given, otherwise)
    assert (plan.model, plan.base_url, plan.key, plan.query, plan.reasoning_effort) == ("p", "http://b", "", {}, "low")
    assert (parse.model, parse.base_url, parse.key, parse.query) == ("m", "http://a", "secret", {"v": "1"})
    assert parameters_of("plan", {"plan": "large"}, otherwise).model == "large"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"plan": {"temprature": 1}}, "temprature"),
        ({"plan": {"temperature": 9}}, "temperature"),
        ({"plan": {"api_key_file": "/nowhere/key"}}, "/nowhere/key"),
        ({"plan": {"provider": "anthropic", "model": "claude"}}, "signalbox[anthropic]"),
        ({"plan": {"provider": "bedrock_converse", "model": "x"}}, "signalbox[bedrock]"),
        ({"plan": {"fallbacks": [{"model": "b", "fallbacks": [{"model": "c"}]}]}}, "Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_said_at_the_start(monkeypatch: pytest.MonkeyPatch, given: Body, words: str) -> None:
    for package in ("langchain_anthropic", "langchain_aws"):
        monkeypatch.setitem(sys.modules, package, None)
    [problem] = problems_of_models(["plan"], given, ModelParameters(model="m"))
    assert words in problem


class ProvidersClass(GenericFakeChatModel):
    """Stands in for LangChain's class of a provider."""

    seen: Any

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Notes what is bound."""
        self.seen.append((tools, kwargs))
        return self

    async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.seen.append(messages)
        return self._generate(messages, *args, **kwargs)


class BlockedReason(StrEnum):
    """Why a provider blocks a prompt, as its class gives it."""

    SAFETY = "SAFETY"


class Refused(Exception):
    """What a provider's client raises."""

    status_code = 401


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[ModelParameters, list[Any]]]:
    def with_answers(*answers: AIMessage, **given: Any) -> tuple[ModelParameters, list[Any]]:
        seen: list[Any] = []

        def made(model: str, **options: Any) -> ProvidersClass:
            seen.append((model, options))
            return ProvidersClass.model_construct(messages=iter(answers), seen=seen)

        monkeypatch.setattr("langchain.chat_models.init_chat_model", made)
        return ModelParameters(provider="openai", model="claude", **given), seen

    return with_answers


async def test_a_providers_class_answers_in_the_same_form(provider: Any) -> None:
    call = {"name": "look", "args": {"at": 1}, "id": "toolu_1"}
    usage = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11, "input_token_details": {"cache_read": 8}}
    said = AIMessage("", tool_calls=[call], usage_metadata=usage, response_metadata={"stop_reason": "tool_use"})
    parameters, seen = provider(said, temperature=None, max_tokens=4096, options={"region_name": "eu"}, api_key="k")
    answer = await ask(parameters)
    mend(answer, {"look": {}})
    message = answer["choices"][0]["message"]
    assert (message["tool_calls"][0]["function"], answer[ASKED]) == (
        {"name": "look", "arguments": '{"at": 1}'},
        "claude",
    )
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 8}
    assert seen[0] == (
        "claude",
        {"model_provider": "openai", "max_tokens": 4096, "region_name": "eu", "api_key": "k", "max_retries": 0},
    )  # fmt: skip
    assert [type(message).__name__ for message in seen[2]] == [
        "SystemMessage", "HumanMessage", "AIMessage", "ToolMessage",
    ]  # fmt: skip


async def test_an_answer_without_anything_is_asked_for_again_and_at_last_is_what_there_is(provider: Any) -> None:
    """Gemini's class makes one of an answer without candidates."""
    nothing = AIMessage("", response_metadata={"prompt_feedback": {}})
    took: Any = {"input_tokens": 7, "output_tokens": 0, "total_tokens": 7}
    parameters, seen = provider(
        nothing.model_copy(update={"usage_metadata": took}), AIMessage("done", usage_metadata=took), retries=1
    )
    answer = await ModelChain("plan", parameters, timeout_s=30, retries=1).create(ASKED_FOR)
    assert answer["choices"][0]["message"]["content"] == "done"
    assert answer["usage"]["total_tokens"] == 14
    assert "empty" in seen[-1][-1].content
    parameters, _ = provider(nothing, nothing, retries=1)
    answer = await ModelChain("plan", parameters, timeout_s=30, retries=1).create(ASKED_FOR)
    mend(answer)
    assert answer["choices"][0]["message"]["content"] == ""


async def test_a_call_that_a_providers_class_could_not_read_is_a_call(provider: Any) -> None:
    parameters, _ = provider(
        AIMessage("", invalid_tool_calls=[{"name": "look", "args": '{"at": ', "id": "c", "error": "no JSON"}])
    )
    answer = await ask(parameters)
    mend(answer, {"look": {}})
    [call] = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "look", "arguments": '{"at": '}


async def test_calls_are_told_in_words_where_no_tools_are_offered(provider: Any) -> None:
    parameters, seen = provider(AIMessage("done"))
    chain = ModelChain("plan", parameters, timeout_s=30, retries=0)
    await chain.create({"messages": HISTORY})
    told = seen[-1]
    assert [type(message).__name__ for message in told] == [
        "SystemMessage",
        "HumanMessage",
        "AIMessage",
        "HumanMessage",
    ]
    assert "look(" in told[2].text
    assert "error: not JSON" in told[3].text


class Google(Exception):
    """What Google's client raises: the status is its code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{code} it says no")
        self.code = code


class OfLangChain(Exception):
    """What LangChain's class makes of that."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.__cause__ = cause


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (Refused("no such key"), False), (ConnectionError("gone"), True),
        (Google(429), True), (OfLangChain(Google(503)), True), (OfLangChain(Google(400)), False),
        (json.JSONDecodeError("Expecting value", "<html>", 0), True), (TypeError("'NoneType' object"), True),
        (TypeError("Could not resolve authentication method"), False),
    ],
)  # fmt: skip
async def test_what_a_providers_class_raises_is_a_refusal_or_an_outage(
    provider: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, retryable: bool
) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(ProvidersClass, "_agenerate", fail)
    parameters, _ = provider(AIMessage("done"))
    with pytest.raises(CompletionError, match=re.escape(str(error))) as caught:
        await ask(parameters)
    assert caught.value.retryable is retryable


async def test_a_class_that_can_t_be_made_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("no region")

    monkeypatch.setattr("langchain.chat_models.init_chat_model", fail)
    with pytest.raises(CompletionError, match="no region") as caught:
        await ask(ModelParameters(provider="bedrock_converse", model="m"))
    assert not caught.value.retryable


class Overloaded(Exception):
    """What Anthropic's client raises when there is too much to do."""

    status_code = 529


@pytest.mark.parametrize(("error", "retries", "asked"), [(Overloaded(), 2, 3), (Overloaded(), 0, 1), (Refused(), 2, 1)])
async def test_a_providers_model_is_asked_again_as_often_as_is_set(
    provider: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, retries: int, asked: int
) -> None:
    times = 0

    async def fail(*_: Any, **__: Any) -> Any:
        nonlocal times
        times += 1
        raise error

    monkeypatch.setattr(ProvidersClass, "_agenerate", fail)
    parameters, _ = provider(AIMessage("done"))
    chain = ModelChain("plan", parameters, timeout_s=30, retries=retries)
    with pytest.raises(CompletionError):
        await chain.create(ASKED_FOR)
    await chain.close()
    assert times == asked


async def test_a_call_that_a_provider_could_not_read_is_told_to_the_model(provider: Any) -> None:
    parameters, _ = provider(AIMessage("", response_metadata={"finish_reason": "MALFORMED_FUNCTION_CALL"}))
    with pytest.raises(CompletionError) as caught:
        await ask(parameters)
    assert (caught.value.kind, caught.value.said) == (TOOL_USE_FAILED, "MALFORMED_FUNCTION_CALL")


@pytest.mark.parametrize("feedback", [{"block_reason": BlockedReason.SAFETY}, {"block_reason": "SAFETY"}])
async def test_a_prompt_that_a_provider_blocks_is_its_refusal_in_its_words(provider: Any, feedback: Body) -> None:
    feedback = {**feedback, "block_reason_message": "Not this.", "safety_ratings": None}
    parameters, _ = provider(AIMessage("", response_metadata={"prompt_feedback": feedback}))
    with pytest.raises(CompletionError) as caught:
        await ask(parameters)
    assert caught.value.said == "the prompt was blocked: SAFETY Not this."
    assert not caught.value.retryable


async def test_feedback_on_a_prompt_that_was_not_blocked_is_none(provider: Any) -> None:
    about = {"prompt_feedback": {"block_reason": 0, "safety_ratings": []}, "finish_reason": "STOP"}
    parameters, _ = provider(AIMessage("hi", response_metadata=about))
    assert (await ask(parameters))["choices"][0]["message"]["content"] == "hi"


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "RECITATION", "refusal", "guardrail_intervened"])
async def test_an_answer_that_a_provider_stopped_is_not_whole(provider: Any, reason: str) -> None:
    parameters, _ = provider(AIMessage("So", response_metadata={"finish_reason": reason}))
    [choice] = (await ask(parameters))["choices"]
    assert choice["finish_reason"] in CUT_SHORT


async def test_a_providers_class_repeats_nothing_by_itself_unless_it_is_told_to(provider: Any) -> None:
    parameters, seen = provider(AIMessage("done"))
    await ask(parameters)
    assert seen[0][1]["max_retries"] == 0
    parameters, seen = provider(AIMessage("done"), options={"max_retries": 5})
    await ask(parameters)
    assert seen[0][1]["max_retries"] == 5
