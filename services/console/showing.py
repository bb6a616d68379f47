"""Answers of the console: pages from templates, and errors as pages."""

from __future__ import annotations

from typing import Any

from starlette.responses import HTMLResponse

from services.console.errors import ConsoleError
from services.console.team_caller import current_caller
from services.console.templating import rendered

RETRY_S = 3
SECTIONS = (
    ("runs", "Runs"),
    ("threads", "Conversations"),
    ("questions", "Questions"),
    ("routes", "Routes"),
    ("rules", "Rules"),
    ("metrics", "Metrics"),
    ("decisions", "Decisions"),
    ("policies", "Policies"),
)


def page(template: str, section: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Returns a page of a section of the console."""
    return HTMLResponse(_in_layout(template, section=section, has_entered=True, refresh_s=0, **values), status)


def error_page(error: ConsoleError, *, has_entered: bool = True, here: str = "", login: str = "") -> HTMLResponse:
    """Returns an error as a page; `here` is where to try once more, `login` where to log in.

    A page that tries again does so by itself.
    """
    is_team = bool(current_caller() or login)
    html = _in_layout(
        "error.html.j2",
        section="",
        has_entered=has_entered,
        refresh_s=RETRY_S if error.tries_again else 0,
        error=error,
        advice=(error.team_advice if is_team else "") or error.advice,
        here=here,
        login=login,
    )
    return HTMLResponse(html, error.status)


def logged_out_page(elsewhere: str) -> HTMLResponse:
    """Returns what one who has logged out here sees; a browser goes on to where the issuer logs them out."""
    return HTMLResponse(
        _in_layout("logged_out.html.j2", section="", has_entered=False, refresh_s=0, elsewhere=elsewhere)
    )


def _in_layout(template: str, **values: Any) -> str:
    return rendered(template, sections=SECTIONS, caller=current_caller(), **values)
