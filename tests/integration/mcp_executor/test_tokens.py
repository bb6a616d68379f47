"""Tokens at MCP servers: the executor's own from a file, or each caller's, exchanged for the run's (RFC 8693)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from services.kit.identity.caller import Caller
from services.kit.identity.keys import KeyPair
from tests.fixtures.mcp_server import Served, serving
from tests.integration.mcp_executor.conftest import accepted, executing, found, write_servers


@dataclass
class Issuer:
    """What an issuer was asked, and what it answers instead of a token."""

    keys: KeyPair
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    instead: Response | None = None
    given: int = 0

    async def exchange(self, request: Request) -> Response:
        """Gives a token for the subject of a run's token, whose signature it checks."""
        form = dict(await request.form())
        self.asked.append({**form, "authorization": request.headers.get("authorization")})
        if self.instead:
            return self.instead
        claims = jwt.decode(
            str(form["subject_token"]), self.keys.public_pem, algorithms=["EdDSA"], audience="signalbox-mcp-executor"
        )
        self.given += 1
        return JSONResponse(
            {"access_token": f"{claims['sub']}-{self.given}", "token_type": "Bearer", "expires_in": 600}
        )


@asynccontextmanager
async def issuing(keys: KeyPair) -> AsyncIterator[Issuer]:
    """Serves an issuer."""
    issuer = Issuer(keys)
    async with serving(Starlette(routes=[Route("/token", issuer.exchange, methods=["POST"])])) as url:
        issuer.url = f"{url}/token"
        yield issuer


async def test_each_caller_has_a_token_of_their_own(tmp_path: Path, keys: KeyPair, tickets: Served) -> None:
    (tmp_path / "secret").write_text("the client's\n")
    (tmp_path / "token").write_text("somebody's\n")
    async with issuing(keys) as issuer:
        exchange = {
            "url": issuer.url,
            "audience": "tickets",
            "scope": "read",
            "client_id": "signalbox",
            "client_secret_file": str(tmp_path / "secret"),
        }
        file = write_servers(tmp_path, url=tickets.url, token_exchange=exchange)
        assert await accepted(file) == 2
        assert await accepted(file, "--token-file", str(tmp_path / "token")) == 0
        assert set(tickets.tokens) == {"somebody's"}
        tickets.tokens.clear()
        async with executing(file, keys) as executor:
            for subject in ("27", "28", "27"):
                assert found(await executor.call("tickets_search", words="login", subject=subject)) == ["Fix login"]
            assert set(tickets.tokens) == {"27-1", "28-2"}
            asked = issuer.asked[0]
            assert (asked["audience"], asked["scope"], len(issuer.asked)) == ("tickets", "read", 2)
            assert asked["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
            assert asked["authorization"].startswith("Basic ")

            async def refuses_the_first(request: Request) -> Response | None:
                return Response(status_code=401) if "27-1" in request.headers["authorization"] else None

            # One that the server takes no more is asked for anew.
            tickets.instead = refuses_the_first
            assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]
            assert issuer.given == 3


async def test_a_token_is_of_all_that_a_caller_is(tmp_path: Path, keys: KeyPair, tickets: Served) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0
    async with issuing(keys) as issuer:
        write_servers(tmp_path, url=tickets.url, token_exchange={"url": issuer.url})
        tickets.tokens.clear()
        async with executing(file, keys) as executor:
            for caller in (Caller("27", frozenset(("admin",))), Caller("27"), Caller("27", claims={"tenant": "B"})):
                await executor.call("tickets_search", caller=caller, words="login")
    assert set(tickets.tokens) == {"27-1", "27-2", "27-3"}


async def test_a_refusal_of_the_executors_own_token_is_told(tmp_path: Path, keys: KeyPair, tickets: Served) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0

    async def refuses_calls(request: Request) -> Response | None:
        return Response(status_code=403) if b"tools/call" in await request.body() else None

    tickets.instead = refuses_calls
    async with executing(file, keys) as executor:
        assert (await executor.call("tickets_search", words="login")).error.reason == "access_refused"


async def test_a_missing_grant_is_told_and_not_waited_for(tmp_path: Path, keys: KeyPair, tickets: Served) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0
    async with issuing(keys) as issuer:
        write_servers(
            tmp_path,
            url=tickets.url,
            token_exchange={"url": issuer.url, "grant_url": "https://tickets.example.com/grant"},
        )
        issuer.instead = JSONResponse({"error": "consent_required", "error_description": "not yet"}, status_code=400)
        tickets.tokens.clear()
        async with executing(file, keys) as executor:
            answer = await executor.call("tickets_search", words="login")
            assert answer.error.reason == "grant_missing"
            assert "consent_required: not yet" in answer.error.message
            # One that writes, too, may be made once the grant is there: by the same key.
            assert (await executor.call("note", text="x", writes=True)).error.reason == "grant_missing"
            assert "https://tickets.example.com/grant" in answer.error.message
            assert tickets.tokens == []
            issuer.instead = None
            assert (await executor.call("note", text="x", writes=True)).output.text == "2 notes"

            async def refuses_all(_: Request) -> Response:
                return Response(status_code=403)

            tickets.instead = refuses_all
            assert (await executor.call("tickets_search", words="login")).error.reason == "grant_missing"


@pytest.mark.parametrize(
    "answer",
    [
        HTMLResponse("<h1>Login</h1>"),
        JSONResponse({"error": "temporarily_unavailable"}, status_code=503),
        JSONResponse({"token_type": "Bearer"}),
        JSONResponse({"access_token": "a\nHost: elsewhere"}),
        JSONResponse({"error": "invalid_client"}, status_code=401),
        JSONResponse({"access_token": jwt.encode({"aud": "payroll"}, "k" * 32), "token_type": "Bearer"}),
        JSONResponse({"access_token": "a", "token_type": "DPoP"}),
        JSONResponse([1]),
        Response("[" * 100_000, media_type="application/json"),
    ],
)
async def test_an_issuer_that_gives_no_token_is_away(
    tmp_path: Path, keys: KeyPair, tickets: Served, answer: Response
) -> None:
    file = write_servers(tmp_path, url=tickets.url)
    assert await accepted(file) == 0
    async with issuing(keys) as issuer:
        write_servers(tmp_path, url=tickets.url, token_exchange={"url": issuer.url, "audience": "tickets"})
        issuer.instead = answer
        tickets.tokens.clear()
        async with executing(file, keys) as executor:
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await executor.call("tickets_search", words="login")
    assert (failed.value.code(), tickets.tokens) == (grpc.StatusCode.UNAVAILABLE, [])


async def test_a_token_of_a_file_is_read_again(tmp_path: Path, keys: KeyPair, tickets: Served) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    file = write_servers(tmp_path, url=tickets.url, token_file=str(token))
    assert await accepted(file) == 0
    async with executing(file, keys) as executor:
        await executor.call("tickets_search", words="login")
        assert set(tickets.tokens) == {"first"}
        tickets.tokens.clear()
        token.write_text("second\n")
        await executor.call("tickets_search", words="login")
        assert set(tickets.tokens) - {"first"} == {"second"}
        token.unlink()
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await executor.call("tickets_search", words="login")
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
