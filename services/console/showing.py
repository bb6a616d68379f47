"""Answers of the console: pages from templates, and errors as pages."""

from __future__ import annotations

from typing import Any

from starlette.responses import HTMLResponse

from services.console.errors import ConsoleError
from services.console.templating import rendered

RETRY_S = 3
SECTIONS = (
    ("runs", "Runs"),
    ("threads", "Conversations"),
    ("questions", "Questions"),
    ("routes", "Routes"),
    ("rules", "Rules"),
    ("decisions", "Decisions"),
    ("policies", "Policies"),
)


def page(template: str, section: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Returns a page of a section of the console."""
    html = rendered(template, section=section, sections=SECTIONS, has_entered=True, refresh_s=0, **values)
    return HTMLResponse(html, status)


def error_page(error: ConsoleError, *, has_entered: bool = True, here: str = "") -> HTMLResponse:
    """Returns an error as a page; `here` is where to try once more. A page that tries again does so by itself."""
    html = rendered(
        "error.html.j2",
        section="",
        sections=SECTIONS,
        has_entered=has_entered,
        refresh_s=RETRY_S if error.tries_again else 0,
        error=error,
        here=here,
    )
    return HTMLResponse(html, error.status)
