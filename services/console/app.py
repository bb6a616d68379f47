"""The console as an application: its pages, its files, and what becomes of errors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, ExceptionHandler

from services.console.agent_pages import AgentPages
from services.console.decision_pages import DecisionPages
from services.console.errors import ConsoleError, NoPage, WrongMethod
from services.console.gateway import Gateway
from services.console.metrics_pages import MetricsPages
from services.console.question_pages import QuestionPages
from services.console.recorded_pages import RecordedPages
from services.console.run_pages import RunPages
from services.console.settings import ConsoleSettings
from services.console.showing import error_page
from services.console.start_pages import StartPages
from services.console.state_pages import StatePages
from services.console.thread_pages import ThreadPages

# What pages load: the folder and the kind of each. Those of the explanation are the ones that a page of its own holds.
STATIC: Mapping[str, tuple[str, str]] = {
    "page.css": ("services.console.explanation_page", "text/css"),
    "page.js": ("services.console.explanation_page", "text/javascript"),
    "evaluate.js": ("services.console.explanation_page", "text/javascript"),
    "console.css": ("services.console", "text/css"),
    "saved_filters.js": ("services.console", "text/javascript"),
    "live.js": ("services.console", "text/javascript"),
}


def make_app(gateway: Gateway, settings: ConsoleSettings, closing: asyncio.Event) -> ASGIApp:
    """Returns the application, to be served behind what says who may come in.

    What it tells of runs for as long as they go on ends with `closing`.
    """
    pages = (
        RunPages(gateway, settings, closing),
        StartPages(gateway, settings),
        RecordedPages(gateway),
        ThreadPages(gateway, settings),
        StatePages(gateway, settings),
        QuestionPages(gateway, settings),
        AgentPages(gateway, settings),
        DecisionPages(gateway, settings),
        MetricsPages(gateway, settings),
    )
    handlers: Mapping[type[Exception], ExceptionHandler] = {
        ConsoleError: _told,
        HTTPException: _not_there,
        Exception: _failed,
    }
    routes = [*(route for each in pages for route in each.routes()), Route("/static/{name}", _static)]
    return Starlette(routes=routes, exception_handlers=handlers)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        raise NoPage(f"The console has no file {name}.")
    package, kind = STATIC[name]
    return Response(files(package).joinpath(name).read_bytes(), media_type=kind)


async def _told(_request: Request, error: Exception) -> Response:
    if not isinstance(error, ConsoleError):
        raise error
    return error_page(error)


async def _not_there(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else NoPage.status
    if status == WrongMethod.status:
        return error_page(WrongMethod(f"{request.method} is no way to ask for {request.url.path}."))
    return error_page(NoPage(f"The console has no page {request.url.path}."))


async def _failed(_request: Request, _error: Exception) -> Response:
    """Says so; the server writes down what it was."""
    return error_page(ConsoleError("The console has failed at this page."))
