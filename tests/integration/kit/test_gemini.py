"""Gemini's models over LangChain's own class, as the API for developers and as Vertex with a key, against a server that
answers as Google's documentation says.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from services.kit.models.answers import mend
from services.kit.models.chain import ModelChain, failure_of
from services.kit.models.completions import CUT_SHORT, TOOL_USE_FAILED, CompletionError
from services.kit.models.parameters import ModelParameters

Answer = tuple[int, dict[str, Any] | str]
PARAMETERS = {"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"]}
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": PARAMETERS}}
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Look."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "abcdefghi", "content": "seen 13"},
]


def said(*parts: dict[str, Any], reason: str = "STOP") -> Answer:
    """An answer of one candidate."""
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11, "cachedContentTokenCount": 8}
    return 200, {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": reason}],
        "usageMetadata": usage,
    }


def error(status: int, name: str) -> Answer:
    """How the API says no."""
    return status, {"error": {"code": status, "message": "it says no", "status": name}}


class Google:
    """The server: gives its answers in order, the last one again and again."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.answers: Sequence[Answer] = ()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.base_url = ""
        self._options = options

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, await request.json()))
        status, body = self.answers[min(len(self.asked), len(self.answers)) - 1]
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text, content_type="application/json")

    async def ask(self, *answers: Answer, retries: int = 0, **request: Any) -> dict[str, Any]:
        """Asks it about the history, with a tool; returns the message, and why it ended."""
        self.answers, self.asked = answers, []
        parameters = ModelParameters.model_validate(
            {"provider": "google_genai", "model": "gemini-2.5-pro", "api_key": "the-key", "base_url": self.base_url,
             "options": self._options}
        )  # fmt: skip
        chain = ModelChain("plan", parameters, timeout_s=30, retries=retries)
        try:
            answer = await chain.create({"messages": HISTORY, "tools": [TOOL], **request})
        finally:
            await chain.close()
        mend(answer, {"look": PARAMETERS})
        return answer


@pytest_asyncio.fixture(params=[{}, {"vertexai": True}], ids=["developers", "vertex"])
async def google(request: pytest.FixtureRequest) -> AsyncIterator[Google]:
    made = Google(request.param)
    app = web.Application()
    app.router.add_post("/{path:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    made.base_url = f"http://{host}:{port}"
    yield made
    await runner.cleanup()


async def test_words_and_calls_come_in_the_same_form(google: Google) -> None:
    answer = await google.ask(said({"text": "five?", "thought": True}, {"text": "There are 4."}))
    assert answer["choices"][0]["message"]["content"] == "There are 4."
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 8}
    [(path, body)] = google.asked
    assert path.endswith("models/gemini-2.5-pro:generateContent")
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert [content["role"] for content in body["contents"]][:2] == ["user", "model"]
    forced = {"type": "function", "function": {"name": "look"}}
    answer = await google.ask(said({"functionCall": {"name": "look", "args": {"at": 2}}}), tool_choice=forced)
    [call] = answer["choices"][0]["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("look", {"at": 2})
    config = google.asked[0][1]["toolConfig"]["functionCallingConfig"]
    # The class writes it in both of the ways that JSON of protobufs has.
    names = config.get("allowedFunctionNames") or config["allowed_function_names"]
    assert (config["mode"], names) == ("ANY", ["look"])


@pytest.mark.parametrize(
    ("refused", "failure"),
    [
        (error(400, "INVALID_ARGUMENT"), "refused"),
        (error(403, "PERMISSION_DENIED"), "refused"),
        (error(429, "RESOURCE_EXHAUSTED"), "away"),
        (error(500, "INTERNAL"), "away"),
        (error(503, "UNAVAILABLE"), "away"),
        ((200, "<html>Bad gateway</html>"), "away"),
        ((200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}), "refused"),
    ],
)
async def test_what_it_says_no_with_is_a_refusal_and_what_passes_is_an_outage(
    google: Google, refused: Answer, failure: str
) -> None:
    with pytest.raises(CompletionError) as caught:
        await google.ask(refused)
    assert failure_of(caught.value) == failure
    assert len(google.asked) == 1
    if failure == "away":
        assert (await google.ask(refused, said({"text": "hi"}), retries=1))["choices"][0]["message"]["content"] == "hi"


async def test_a_call_that_it_could_not_read_is_told_apart(google: Google) -> None:
    with pytest.raises(CompletionError) as caught:
        await google.ask((200, {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}))
    assert caught.value.kind == TOOL_USE_FAILED


async def test_no_candidate_is_asked_for_again_and_half_of_one_is_none(google: Google) -> None:
    nothing = (200, {"candidates": [], "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}})
    answer = await google.ask(nothing, said({"text": "hi"}), retries=1)
    assert (answer["choices"][0]["message"]["content"], len(google.asked)) == ("hi", 2)
    for reason in ("MAX_TOKENS", "SAFETY"):
        answer = await google.ask(said({"text": "There a"}, reason=reason))
        assert answer["choices"][0]["finish_reason"] in CUT_SHORT
