"""Tokens that issuers give for callers: which of them are sent to a server."""

from __future__ import annotations

import itertools
from typing import Any

import httpx2
import jwt
import pytest

from services.kit.identity.caller import Caller
from services.mcp_executor.errors import ServerAway
from services.mcp_executor.exchange import CallersTokens
from services.mcp_executor.servers import TokenExchange


def tokens_of(claims: dict[str, Any], **said: Any) -> CallersTokens:
    given = itertools.count()

    def issue(_request: httpx2.Request) -> httpx2.Response:
        token = jwt.api_jws.encode(httpx2.Response(200, json=claims).content, "k" * 32, algorithm="HS256")
        return httpx2.Response(200, json={"access_token": f"{token}{next(given)}", **said})

    exchange = TokenExchange(url="https://idp.example.com/token", audience="tickets")
    return CallersTokens("tickets", exchange, httpx2.AsyncClient(transport=httpx2.MockTransport(issue)))


@pytest.mark.parametrize("audience", ["notes", ["notes", "desk"], 5, 0, True, {"tickets": 1}, [5], [["tickets"]]])
async def test_a_token_for_another_audience_is_not_sent(audience: Any) -> None:
    with pytest.raises(ServerAway, match="another audience"):
        await tokens_of({"aud": audience}).token(Caller("27"), "a run's token")


@pytest.mark.parametrize("claims", [{}, {"aud": None}, {"aud": []}, {"aud": "tickets"}, {"aud": ["desk", "tickets"]}])
async def test_a_token_for_the_server_is_sent_and_one_that_says_nothing_of_it(claims: dict[str, Any]) -> None:
    assert await tokens_of(claims).token(Caller("27"), "a run's token")


@pytest.mark.parametrize(
    ("life_s", "is_kept"),
    [(600, True), (10**400, True), (0.5, False), (20, False), (-1, True), (None, True), ("600", True), ({}, True)],
    ids=lambda each: str(each)[:9],
)
async def test_a_token_is_kept_for_as_long_as_it_lives_or_a_while(life_s: Any, is_kept: bool) -> None:
    tokens = tokens_of({}, expires_in=life_s)
    first = await tokens.token(Caller("27"), "a run's token")
    assert (await tokens.token(Caller("27"), "a run's token") == first) is is_kept
