"""Streams of threads and commands: what is wrong with a request is said before anything is asked of the platform."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from services.http_api.server import NAME, build
from services.http_api.settings import HttpApiSettings
from services.kit.wire.web_service import running

ORIGIN = "https://chat.example.com"
STREAM, COMMANDS = "/threads/t/stream/events", "/threads/t/commands"
DEEP: Any = 1
for _ in range(200):
    DEEP = [DEEP]


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A client of the service, behind which there is no gateway."""
    settings = HttpApiSettings(gateway_target="ipv4:127.0.0.1:1", allowed_origins=(ORIGIN,), max_request_bytes=65536)
    async with (
        running(NAME, settings, build) as service,
        httpx.AsyncClient(
            base_url=f"http://{service.address}", headers={"authorization": "Bearer a.b.c"}, timeout=30
        ) as client,
    ):
        yield client


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"channels": []},
        {"channels": "values"},
        {"channels": ["nothing"]},
        {"channels": ["custom:"]},
        {"channels": ["values"] * 33},
        {"channels": ["custom:" + "x" * 300]},
        {"channels": ["values"], "namespaces": ["outer"]},
        {"channels": ["values"], "namespaces": [[1]]},
        {"channels": ["values"], "namespaces": [[]] * 101},
        {"channels": ["values"], "namespaces": [["x"] * 33]},
        {"channels": ["values"], "depth": -1},
        {"channels": ["values"], "since": -1},
        {"channels": ["values"], "since": 1 << 60},
        {"channels": ["values"], "since": "now"},
        {"channels": ["values"], "colour": 1},
        [],
        DEEP,
    ],
)
async def test_what_is_asked_of_a_stream_is_checked(http: httpx.AsyncClient, body: Any) -> None:
    answer = await http.post(STREAM, json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["reason"] == "INVALID_REQUEST"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": 1},
        {"method": "run.start"},
        {"id": -1, "method": "run.start"},
        {"id": "one", "method": "run.start"},
        {"id": 1 << 60, "method": "run.start"},
        {"id": 1, "method": ""},
        {"id": 1, "method": "x" * 65},
        {"id": 1, "method": ["run.start"]},
        {"id": 1, "method": "run.start", "params": []},
        {"id": 1, "method": "run.start", "more": 1},
        {"id": 1, "method": "run.start", "params": {"input": DEEP}},
    ],
)
async def test_a_command_that_is_none_is_refused(http: httpx.AsyncClient, body: Any) -> None:
    answer = await http.post(COMMANDS, json=body)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"assistant_id": ""},
        {"assistant_id": 5},
        {"assistant_id": "x" * 65},
        {"assistant_id": "agent", "config": [], "input": {}},
        {"assistant_id": "agent", "multitaskStrategy": "guess", "input": {}},
    ],
)
async def test_the_number_of_a_command_is_in_its_refusal(http: httpx.AsyncClient, params: Any) -> None:
    answer = await http.post(COMMANDS, json={"id": 7, "method": "run.start", "params": params})
    told = answer.json()
    assert (answer.status_code, told["type"], told["id"], told["error"]) == (200, "error", 7, "invalid_argument")
    assert told["message"]


@pytest.mark.parametrize("path", [STREAM, COMMANDS])
async def test_what_is_no_request_of_a_caller_is_refused_by_its_status(http: httpx.AsyncClient, path: str) -> None:
    json = {"content-type": "application/json"}
    assert (await http.post(path, content=b"{", headers=json)).status_code == 400
    assert (await http.post(path, content=b"{}", headers={"content-type": "text/plain"})).status_code == 415
    assert (await http.post(path, content=b"[" + b"1," * 40000 + b"1]", headers=json)).status_code == 413
    assert (await http.post(path, json={}, headers={"authorization": ""})).status_code == 401
    assert (await http.get(path)).status_code == 405
    assert (await http.post(f"{path}?since=1", json={})).status_code == 422


async def test_while_the_gateway_is_away_both_say_so_and_when_to_come_again(http: httpx.AsyncClient) -> None:
    for path, body in (
        (STREAM, {"channels": ["lifecycle"]}),
        (COMMANDS, {"id": 1, "method": "agent.getTree"}),
        (COMMANDS, {"id": 1, "method": "nothing"}),
    ):
        answer = await http.post(path, json=body)
        assert (answer.status_code, answer.json()["reason"]) == (503, "UNAVAILABLE"), answer.text
        assert answer.headers["retry-after"]


async def test_pages_of_an_origin_that_is_named_may_listen_and_no_others(http: httpx.AsyncClient) -> None:
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "x-api-key,content-type"}
    for path in (STREAM, COMMANDS):
        allowed = await http.options(path, headers={"origin": ORIGIN, **asks})
        assert allowed.headers["access-control-allow-origin"] == ORIGIN
        refused = await http.options(path, headers={"origin": "https://evil.example.com", **asks})
        assert "access-control-allow-origin" not in refused.headers
