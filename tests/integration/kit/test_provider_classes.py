"""Models over LangChain's own classes of their providers, each against a server that answers as the provider says."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio
from tenacity import wait_none

from services.kit.models.answers import mend
from services.kit.models.chain import ModelChain, failure_of
from services.kit.models.completions import CUT_SHORT, TOOL_USE_FAILED, CompletionError
from services.kit.models.parameters import ModelParameters
from services.kit.models.provider_words import says_too_long
from services.kit.models.streamed import ESTIMATED, heard_by
from tests.integration.kit.provider_servers import (
    CACHED,
    INPUT,
    OUTPUT,
    Anthropic,
    Bedrock,
    Call,
    Google,
    Provider,
    Reply,
    Words,
    said,
    serving,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

PARAMETERS: Final = {"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"]}
TOOL: Final = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": PARAMETERS}}
CALLED: Final = [
    {"id": f"abcdefgh{at}", "type": "function", "function": {"name": "look", "arguments": f'{{"at": {at}}}'}}
    for at in (1, 2)
]
HISTORY: Final[list[dict[str, Any]]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Look."},
    {"role": "assistant", "content": None, "tool_calls": CALLED},
    {"role": "tool", "tool_call_id": "abcdefgh1", "content": "seen 13"},
    {"role": "tool", "tool_call_id": "abcdefgh2", "content": ""},
    {"role": "system", "content": "Go on."},
]
PROVIDERS: Final[Mapping[str, Callable[[], Provider]]] = {
    "Anthropic": Anthropic,
    "Bedrock": Bedrock,
    "Gemini": Google,
    "Vertex": lambda: Google(vertexai=True),
}
FORCED: Final = {"type": "function", "function": {"name": "look"}}


@dataclass(frozen=True)
class Asked:
    """A provider's server, and a model of its class, which repeats once."""

    at: Provider
    chain: ModelChain

    async def ask(self, *replies: Reply, **request: Any) -> dict[str, Any]:
        """Asks about the history, with a tool; returns the answer, mended as each is."""
        self.at.replies = replies
        self.at.asked.clear()
        answer = await self.chain.create({"messages": HISTORY, "tools": [TOOL], **request})
        mend(answer, {"look": PARAMETERS})
        return answer

    async def fail(self, *replies: Reply) -> CompletionError:
        """Asks likewise, and returns why that failed."""
        with pytest.raises(CompletionError) as caught:
            await self.ask(*replies)
        return caught.value


@asynccontextmanager
async def asked(made: Provider, **parameters: Any) -> AsyncIterator[Asked]:
    async with serving(made) as at:
        model = ModelParameters.model_validate(at.parameters | parameters)
        chain = ModelChain("plan", model, timeout_s=60, retries=1)
        yield Asked(at, chain)
        await chain.close()


# A class costs more to make than all that is asked of it.
@pytest_asyncio.fixture(params=PROVIDERS, scope="module", loop_scope="module")
async def model(request: pytest.FixtureRequest) -> AsyncIterator[Asked]:
    async with asked(PROVIDERS[request.param]()) as made:
        yield made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has what is repeated be repeated without a wait."""
    monkeypatch.setattr("services.kit.models.completions._BACKOFF", wait_none())


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


def calls_of(answer: dict[str, Any]) -> list[Any]:
    return [json.loads(call["function"]["arguments"]) for call in answer["choices"][0]["message"]["tool_calls"]]


class Heard:
    """What was said of an answer while it came, attempt by attempt."""

    def __init__(self) -> None:
        self.attempts: list[str] = []

    def begin(self) -> None:
        self.attempts.append("")

    def say(self, text: str) -> None:
        self.attempts[-1] += text


async def test_words_come_without_thoughts_and_with_what_they_took(model: Asked) -> None:
    answer = await model.ask(said(Words("five?", thought=True), Words("There are 4.")))
    assert (text_of(answer), answer["model"]) == ("There are 4.", model.at.model)
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (
        INPUT,
        OUTPUT,
        INPUT + OUTPUT,
    )
    assert usage["prompt_tokens_details"] == {"cached_tokens": CACHED}


async def test_several_calls_and_words_beside_them_are_calls(model: Asked) -> None:
    calls = [Call("look", {"at": at}, f"call_{at}") for at in (2, 3)]
    answer = await model.ask(said(Words("I look."), *calls), tool_choice=FORCED)
    assert calls_of(answer) == [{"at": 2}, {"at": 3}]
    assert text_of(answer) == "I look."
    assert len({call["id"] for call in answer["choices"][0]["message"]["tool_calls"]}) == 2


async def test_a_history_of_calls_is_taken_where_no_tools_are_offered(model: Asked) -> None:
    assert text_of(await model.ask(said(Words("hi")), tools=[])) == "hi"
    assert "seen 13" in json.dumps(model.at.asked[0][1])


async def test_an_answer_is_heard_while_it_comes(model: Asked) -> None:
    heard = Heard()
    with heard_by(heard):
        whole = said(Words("hm", thought=True), Words("It is 4."), Call("look", {"at": 2}))
        answer = await model.ask(whole)
    assert heard.attempts == ["It is 4."]
    assert (text_of(answer), calls_of(answer), answer["model"]) == ("It is 4.", [{"at": 2}], model.at.model)
    assert answer["usage"]["prompt_tokens"] == INPUT
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": CACHED}


async def test_a_stream_that_breaks_off_is_heard_anew(model: Asked) -> None:
    for words, breaks_with in (("busy", model.at.busy_in_stream), ("whole|missing messageStop", "")):
        heard, broken = Heard(), Reply(parts=[Words("It is 3.")], breaks_with=breaks_with)
        with heard_by(heard):
            answer = await model.ask(broken, said(Words("It is 4.")))
            assert (text_of(answer), heard.attempts[-1], len(heard.attempts)) == ("It is 4.", "It is 4.", 2)
            error = await model.fail(broken)
        assert (failure_of(error), bool(re.search(words, str(error)))) == ("away", True), error


async def test_what_it_says_no_with_is_a_refusal_in_its_words(model: Asked) -> None:
    for status, kind in model.at.refusals:
        error = await model.fail(model.at.error(status, kind))
        assert (failure_of(error), error.kind, len(model.at.asked)) == ("refused", f"http_{status}", 1), kind
        assert "it says no" in error.said


async def test_what_passes_is_an_outage_and_asked_again(model: Asked) -> None:
    outages = [model.at.error(status, kind) for status, kind in model.at.outages]
    for outage in (*outages, Reply(body="<html>Bad gateway</html>"), Reply(body="")):
        assert failure_of(await model.fail(outage)) == "away", outage
        assert text_of(await model.ask(outage, said(Words("hi")))) == "hi"
        assert len(model.at.asked) == 2


@pytest.mark.parametrize("body", ["<html>Bad gateway</html>", ""])
async def test_no_stream_where_one_is_asked_for_is_an_outage(model: Asked, body: str) -> None:
    with heard_by(Heard()):
        assert failure_of(await model.fail(Reply(body=body))) == "away"


async def test_a_prompt_that_is_too_long_is_said_to_be(model: Asked) -> None:
    error = await model.fail(model.at.too_long)
    assert (failure_of(error), says_too_long(str(error)), len(model.at.asked)) == ("refused", True, 1)


async def test_an_answer_that_was_stopped_is_not_whole(model: Asked) -> None:
    for reason in model.at.cut:
        answer = await model.ask(said(Words("There a"), end=reason))
        assert answer["choices"][0]["finish_reason"] in CUT_SHORT, reason
        assert len(model.at.asked) == 1


async def test_an_answer_of_nothing_is_asked_for_again_with_that_said(model: Asked) -> None:
    answer = await model.ask(said(), said(Words("hi")))
    assert text_of(answer) == "hi"
    assert [("was empty" in json.dumps(body)) for _, body in model.at.asked] == [False, True]
    assert answer["usage"]["prompt_tokens"] == 2 * INPUT


@pytest.mark.parametrize("model", ["Bedrock", "Gemini", "Vertex"], indirect=True, scope="module")
async def test_a_call_that_it_could_not_read_is_told_apart(model: Asked) -> None:
    error = await model.fail(model.at.unread)
    assert (error.kind, len(model.at.asked)) == (TOOL_USE_FAILED, 1)


async def test_a_prompt_is_asked_in_the_providers_form(model: Asked) -> None:
    await model.ask(said(Call("look", {"at": 2})), tool_choice=FORCED)
    [(path, body)] = model.at.asked
    assert model.at.form_of(path, body) == {"system": "Be brief.\n\nGo on.", "must_call": "look"}


@pytest.mark.parametrize("made", PROVIDERS.values(), ids=PROVIDERS)
async def test_a_call_that_is_given_up_ends_at_the_provider_too(made: Callable[[], Provider]) -> None:
    async with asked(made(), timeout_s=2) as hanging:
        hanging.at.given_up = asyncio.Event()
        # To make a class may take longer than that, once.
        while not hanging.at.asked:
            error = await hanging.fail(said(Words("hi")))
            assert (error.kind, failure_of(error)) == ("timeout", "away")
        # Bedrock's class asks in a thread, which ends by its own timeout.
        async with asyncio.timeout(30):
            await hanging.at.given_up.wait()


async def test_what_a_stream_does_not_say_that_it_took_is_estimated() -> None:
    class Older(Anthropic):
        counts_at_last = False

    async with asked(Older()) as model:
        with heard_by(Heard()):
            answer = await model.ask(said(Words("It is 4.")))
    assert answer[ESTIMATED]
    assert answer["usage"]["prompt_tokens"] > INPUT


async def test_a_prompt_that_google_blocks_is_a_refusal() -> None:
    async with asked(Google()) as google:
        error = await google.fail(Reply(body={"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}))
        assert (failure_of(error), len(google.at.asked)) == ("refused", 1)


@pytest.mark.parametrize(
    ("made", "marked"),
    [
        (Anthropic, lambda body: body["system"][0]["cache_control"]["type"] == "ephemeral"),
        (Bedrock, lambda body: body["system"][1:] == [{"cachePoint": {"type": "default"}}]),
        (Google, lambda body: len(body["systemInstruction"]["parts"]) == 1),
    ],
)
async def test_the_system_message_is_marked_where_a_cache_wants_that(
    made: Callable[[], Provider], marked: Callable[[dict[str, Any]], bool]
) -> None:
    async with asked(made(), prompt_cache="breakpoint") as hinted:
        await hinted.ask(said(Words("hi")))
        [(_, body)] = hinted.at.asked
        assert marked(body), body
