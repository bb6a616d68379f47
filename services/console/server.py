"""What a team's console is made of."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from starlette.types import ASGIApp

from services.console.app import make_app
from services.console.gateway import Gateway
from services.console.issuer import Client, Issuer
from services.console.login import CALLBACK, ForwardedEntrance, LoginEntrance
from services.console.sessions import KeysUnusable, Seal, SessionCookies, read_keys
from services.console.settings import TeamConsoleSettings
from services.console.team_caller import token_of_caller
from services.kit.wire.client import connect
from services.kit.wire.needs import looked_for, needed_text
from services.kit.wire.web_service import WebService

NAME = "console"


async def build(settings: TeamConsoleSettings, stack: AsyncExitStack) -> WebService:
    """Puts the console together; the channel to the gateway closes with the stack. Raises KeysUnusable."""
    channel = await stack.enter_async_context(looked_for("the gateway", connect(settings.gateway_target, settings)))
    pages = settings.of_pages()
    closing = asyncio.Event()
    gateway = Gateway(channel, settings.gateway_target, token_of_caller, call_timeout_s=pages.call_timeout_s)
    return WebService(await _entrance(make_app(gateway, pages, closing), settings), end_streams=closing.set)


async def _entrance(app: ASGIApp, settings: TeamConsoleSettings) -> ASGIApp:
    if settings.login == "proxy":
        return ForwardedEntrance(app, settings.token_header, settings.public_url)
    if settings.session_keys_file is None:
        raise KeysUnusable("SIGNALBOX_SESSION_KEYS_FILE is not set")
    keys = read_keys(await needed_text(settings.session_keys_file))
    secret_file = settings.oidc_client_secret_file
    client = Client(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        secret=(await needed_text(secret_file)).strip() if secret_file else None,
        scope=settings.oidc_scope,
        token=settings.oidc_token,
        parameters=settings.oidc_parameters,
        redirect_url=f"{settings.public_url.rstrip('/')}{CALLBACK}",
    )
    cookies = SessionCookies(Seal(keys, "session"), settings.session_life_s)
    return LoginEntrance(app, Issuer(client), cookies, Seal(keys, "login"), settings.public_url)
