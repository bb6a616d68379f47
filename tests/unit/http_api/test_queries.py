"""Parameters that would be passed over are refused in words, before anything is asked of the gateway."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.http_api.app import make_app
from services.http_api.errors import Invalid
from services.http_api.event_stream import Streams
from services.http_api.run_request import RunBody, read_body
from services.http_api.settings import HttpApiSettings


@pytest.fixture
def application() -> Any:
    """The application, behind which there is no gateway."""
    gateway: Any = type("Nobody", (), {"agents": None})()
    streams = Streams(most=1, heartbeat_s=1, send_timeout_s=1)
    return make_app(gateway, HttpApiSettings(gateway_target="dns:///nowhere:1"), streams)


async def test_each_operation_refuses_a_parameter_that_it_does_not_have(application: Any) -> None:
    transport = httpx.ASGITransport(application, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
        document = (await http.get("/openapi.json")).json()
        tried = 0
        for path, methods in document["paths"].items():
            for method, described in methods.items():
                if described.get("security") == [] or "200" not in described["responses"]:
                    continue
                answer = await http.request(method, path, params={"limmit": "3"})
                assert (answer.status_code, "limmit" in answer.text) == (422, True), (method, path)
                tried += 1
        assert tried > 40


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/threads/t/runs/r/stream", {"checkpoint_id": "r:c", "namespace": "", "cancel_on_disconnect": "0"}),
        ("/threads/t/state", {"subgraphs": "true", "select": "values"}),
        ("/threads/t", {"include": "ttl"}),
    ],
)
async def test_what_the_sdks_add_by_themselves_is_taken(application: Any, path: str, given: dict[str, str]) -> None:
    transport = httpx.ASGITransport(application, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
        assert "is no parameter" not in (await http.get(path, params=given)).text
        assert "is no parameter" in (await http.get(path, params={**given, "limmit": "3"})).text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"config": {"configurabel": {}}}, "configurabel"),
        ({"checkpoint": {"thread_id": "other", "checkpoint_id": "r:c"}}, "another thread"),
        ({"checkpoint": {"checkpoint_ns": "inner:1", "checkpoint_id": "r:c"}}, "graphs inside nodes"),
    ],
)
def test_what_of_a_run_would_be_passed_over_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid) as refused:
        checked({"assistant_id": "talk", "input": {}, **given}, thread_id="t")
    assert words in refused.value.body()["detail"]


def checked(given: dict[str, Any], *, thread_id: str) -> None:
    """Reads a body as a run of a thread does."""
    body = read_body(RunBody, given)
    if body.checkpoint:
        body.checkpoint.check_of(thread_id)


def test_a_checkpoint_may_be_named_by_the_config_as_in_a_graph() -> None:
    given = {"assistant_id": "talk", "config": {"configurable": {"checkpoint_id": "r:c"}}}
    assert read_body(RunBody, given).from_checkpoint == "r:c"
