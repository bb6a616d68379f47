"""How often rules fired, as `signalbox decisions --count` tells it."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from rich.console import Console
from signalbox.v1 import runs_pb2
from typer.testing import CliRunner

from services.cli import decisions as commands
from services.cli.app import app
from services.cli.client import Connection
from services.cli.exit_codes import ExitCode
from services.cli.terminal import Terminal


@pytest.mark.parametrize("is_partial", [True, False])
async def test_that_older_decisions_were_not_looked_at_is_said_even_where_none_was_counted(
    monkeypatch: pytest.MonkeyPatch, *, is_partial: bool
) -> None:
    count = runs_pb2.DecisionCount(router="data_chat.route_after_agent", rule="tool_calls", destination="tools")

    async def count_decisions(_request: runs_pb2.CountDecisionsRequest) -> runs_pb2.CountDecisionsResponse:
        return runs_pb2.CountDecisionsResponse(counts=[count], is_partial=is_partial)

    @asynccontextmanager
    async def open_gateway(_connection: Connection) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(count_decisions=count_decisions)

    monkeypatch.setattr(commands, "open_gateway", open_gateway)
    terminal = Terminal(
        Console(file=(out := io.StringIO()), width=200), Console(file=(err := io.StringIO()), width=200)
    )
    request = runs_pb2.CountDecisionsRequest(agent="data_chat")
    ended = await commands.count_decisions(Connection("", ""), request, terminal, as_json=False)
    assert ended is ExitCode.OK
    assert "never" in out.getvalue()
    said = "0 decisions counted, among the newest; older ones were not looked at"
    assert (said in err.getvalue(), bool(err.getvalue())) == (is_partial, is_partial)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--count", "--agent", "data_chat", "--until", "2000-01-01"), "--count takes"),
        (("--count", "--agent", "data_chat", "--rule", "blocked"), "--count takes"),
        (("--count", "--agent", "data_chat", "--caller", "nobody"), "--count takes"),
        (("--count", "--agent", "data_chat", "--to", "tools", "--since", "2000-01-01"), "--count takes"),
        (("--count", "--agent", "data_chat", "--router", "r"), "--count takes"),
        (("--count", "--agent", "data_chat", "--correlation-id", "c"), "--count takes"),
        (("--count",), "name it with --agent"),
        (("--count", "--agent", "data_chat", "a-run"), "no run"),
        (("a-run", "--until", "2000-01-01"), "listed whole"),
        (("--every", "24"), "--count and --agent too"),
    ],
)
def test_options_of_decisions_that_would_be_left_aside_are_refused(options: tuple[str, ...], told: str) -> None:
    ended = CliRunner().invoke(app, ["decisions", *options])
    assert ended.exit_code == ExitCode.USAGE
    assert told in " ".join(ended.output.split())
