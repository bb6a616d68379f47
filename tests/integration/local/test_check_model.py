"""`signalbox check-model` against models that do what is needed, and models that fail at one thing each."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable

import pytest

from tests.fixtures.forked import program
from tests.fixtures.scripted_model import ModelRequest, ScriptedModel
from tests.fixtures.scripted_replies import Reply

AGENT, GUARD = "big", "small"
Responder = Callable[[ModelRequest], Reply]


IS_QUESTION = '"kind": "question"'


def able(request: ModelRequest) -> Reply:
    """A model that does everything as it should."""
    if "Which word" in request.last_text:
        return Reply.text("Marzipan.", usage=(10_000, 3))
    if request.tool_messages:
        return Reply.text("There are 4,711 of them.")
    if "submit_verdict" in request.tools:
        return Reply.tool_call("submit_verdict", {"verdict": "TRUE_POSITIVE", "confidence": 0.9, "lines": [3]})
    if "count_devices" in request.tools:
        return Reply.tool_call("count_devices", {"celsius": 12})
    if "JSON object" in str(request.messages[0]["content"]):
        return Reply.text('```json\n{"supported": true, "reason": "it does"}\n```')
    return Reply.text("The sea is wide.")


def careful(request: ModelRequest) -> Reply:
    """A guard's model."""
    if IS_QUESTION not in request.last_text:
        return Reply.text("The sea is wide.")
    return Reply.text("ALLOW" if "my devices" in request.last_text else "BLOCK")


@pytest.fixture
async def endpoint() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel() as model:
        model.respond(AGENT, able)
        model.respond(GUARD, careful)
        yield model


async def check(
    endpoint: ScriptedModel, *options: str, **env: str
) -> tuple[int, dict[tuple[str, str], dict[str, object]], str]:
    """The command's status, what it says of each check of each model, and its errors."""
    environment = {
        "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "OPENAI_BASE_URL": endpoint.base_url,
        "OPENAI_API_KEY": "key", "SIGNALBOX_AGENT_MODEL": AGENT, "SIGNALBOX_GUARD_MODEL": GUARD, **env,
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *program("services.cli"), "check-model", "--json", *options,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode is not None
    checks = {(each["model"], each["name"]): each for each in json.loads(out)} if out else {}
    return process.returncode, checks, err.decode()


async def test_able_models_pass_and_each_is_tried_in_its_roles(endpoint: ScriptedModel) -> None:
    status, checks, err = await check(endpoint)
    assert {key for key, each in checks.items() if not each["ok"]} == set(), checks
    assert (status, err) == (0, "")
    assert set(checks) == {
        (GUARD, "answers"), (GUARD, "guard verdict"),
        (AGENT, "answers"), (AGENT, "tools"), (AGENT, "context"), (AGENT, "structured output"), (AGENT, "JSON"),
    }  # fmt: skip
    assert "tokens/s" in str(checks[AGENT, "answers"]["said"])


def instead(when: Callable[[ModelRequest], bool], reply: Reply, otherwise: Responder) -> Responder:
    return lambda request: reply if when(request) else otherwise(request)


@pytest.mark.parametrize(
    ("model", "responder", "failed", "words"),
    [
        (AGENT, lambda _: Reply.http_error(401), "answers", "refuses the key"),
        (AGENT, lambda _: Reply.http_error(404), "answers", "no such model"),
        (AGENT, lambda _: Reply.text("", finish_reason="length"), "answers", "token limit"),
        (AGENT, instead(lambda r: "count_devices" in r.tools, Reply.text("About 12."), able), "tools", "did not call"),
        (AGENT, instead(lambda r: bool(r.tool_messages), Reply.text("Many."), able), "tools", "told 4711"),
        (
            AGENT,
            instead(
                lambda r: "submit_verdict" in r.tools,
                Reply.tool_call("submit_verdict", {"verdict": "MAYBE", "confidence": 0.9, "lines": [3]}), able,
            ),
            "structured output", "does not match the schema",
        ),
        (
            AGENT, instead(lambda r: "JSON object" in str(r.messages[0]), Reply.text("Yes, it is."), able),
            "JSON", "there is no JSON object in it",
        ),
        (
            AGENT, instead(lambda r: "Which word" in r.last_text, Reply.text("Marzipan.", usage=(2048, 3)), able),
            "context", "characters it read 2,048 tokens, and did not say so",
        ),
        (
            AGENT, instead(lambda r: "Which word" in r.last_text, Reply.text("Device?", usage=(10_000, 3)), able),
            "context", "is lost to it",
        ),
        (GUARD, lambda _: Reply.text("ALLOW"), "guard verdict", "let a question through"),
        (GUARD, lambda _: Reply.text("BLOCK"), "guard verdict", "blocked a harmless question"),
        (GUARD, lambda _: Reply.text("I think it is fine."), "guard verdict", "verdict"),
    ],
)  # fmt: skip
async def test_what_a_model_fails_at_is_named(
    endpoint: ScriptedModel, model: str, responder: Responder, failed: str, words: str
) -> None:
    endpoint.respond(model, responder)
    status, checks, _ = await check(endpoint)
    assert status == 1
    assert [key for key, each in checks.items() if not each["ok"]] == [(model, failed)], checks
    assert words in str(checks[model, failed]["said"])


async def test_a_guard_that_needs_more_room_is_tried_with_it(endpoint: ScriptedModel) -> None:
    def reasoning(request: ModelRequest) -> Reply:
        short = IS_QUESTION in request.last_text and request.body["max_tokens"] < 4000
        return Reply.text("", finish_reason="length") if short else careful(request)

    endpoint.respond(GUARD, reasoning)
    status, checks, _ = await check(endpoint)
    assert status == 1
    advised = re.findall(r"--set (\S+)", str(checks[GUARD, "guard verdict"]["said"]))
    status, checks, _ = await check(endpoint, *[word for setting in advised for word in ("--set", setting)])
    assert status == 0, checks


async def test_an_unknown_model_is_told_with_the_names_there_are(endpoint: ScriptedModel) -> None:
    endpoint.respond("other", lambda _: Reply.http_error(404))
    _, checks, _ = await check(endpoint, SIGNALBOX_FORMAT_MODEL="other")
    assert "it has: " in str(checks["other", "answers"]["said"])


async def test_without_an_endpoint_there_is_nothing_to_check(endpoint: ScriptedModel) -> None:
    status, _, err = await check(endpoint, OPENAI_BASE_URL="")
    assert status == 2
    assert "OPENAI_BASE_URL" in err


async def test_what_an_endpoint_refuses_is_left_out_and_the_settings_for_that_are_said(endpoint: ScriptedModel) -> None:
    """As OpenAI's reasoning models do."""

    def reasons(request: ModelRequest) -> Reply:
        refused = next((name for name in ("temperature", "max_tokens") if name in request.body), None)
        return Reply.http_error(400, f"Unsupported parameter: '{refused}'.") if refused else able(request)

    endpoint.respond(AGENT, reasons)
    _, checks, _ = await check(endpoint)
    assert {name: each["ok"] for (model, name), each in checks.items() if model == AGENT} == {
        "answers": True, "tools": True, "context": True, "structured output": True, "JSON": True,
    }  # fmt: skip
    said = str(checks[AGENT, "answers"]["said"])
    settings = json.loads(said.partition("SIGNALBOX_MODELS='")[2].removesuffix("'"))
    assert settings == {"default": {"temperature": None, "max_tokens_as": "max_completion_tokens"}}


SUBMITTED = json.dumps({"verdict": "TRUE_POSITIVE", "confidence": 0.9, "lines": [3]})
TOO_LONG = Reply.http_error(400, "This model's maximum context length is 4096 tokens.")


@pytest.mark.parametrize(
    ("when", "reply", "name", "words"),
    [
        (lambda r: "submit_verdict" in r.tools, Reply.text(SUBMITTED), "structured output", "as text, which is read"),
        (lambda r: "submit_verdict" in r.tools and len(r.messages) == 1, Reply.text("It is true."),
         "structured output", "a call more"),
        (lambda r: "Which word" in r.last_text, TOO_LONG, "context", "is asked with less then"),
        (lambda r: "wide" not in r.last_text, Reply.text("The sea is wide.", usage=None), "answers", "an estimate"),
    ],
)  # fmt: skip
async def test_habits_that_the_platform_meets_are_said(
    endpoint: ScriptedModel, when: Callable[[ModelRequest], bool], reply: Reply, name: str, words: str
) -> None:
    """Some of them are those of Ollama, which passes over `tool_choice`."""
    endpoint.respond(AGENT, instead(when, reply, able))
    _, checks, _ = await check(endpoint)
    assert words in str(checks[AGENT, name]["said"])
    assert checks[AGENT, name]["ok"]
