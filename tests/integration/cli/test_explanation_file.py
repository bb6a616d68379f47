"""`signalbox explain --html`: the file has what the console shows, and no earlier one is left where it fails."""

from __future__ import annotations

import html
import io
from pathlib import Path
from typing import Any

import grpc
import pytest
from rich.console import Console

from services.cli import run_states
from services.cli.client import Connection
from services.cli.errors import CliError
from services.cli.runs import explain
from services.cli.terminal import Terminal
from tests.fixtures.walked_run import RUN_ID, explained
from tests.integration.cli.fake_gateway import FakeGateway, serving
from tests.integration.console import fake_gateway as whole

NOT_HERE = "The state after this step is not in this file"


def quiet() -> Terminal:
    return Terminal(out=Console(file=io.StringIO()), err=Console(file=io.StringIO()))


def read(page: Path) -> str:
    """The file, as a person reads it."""
    return html.unescape(page.read_text())


async def written(gateway: whole.FakeGateway, page: Path) -> str:
    async with whole.serving(gateway) as port:
        await explain(Connection(f"127.0.0.1:{port}", "token"), RUN_ID, quiet(), html=page)
    return read(page)


async def test_a_page_of_an_earlier_time_is_removed_first(tmp_path: Path) -> None:
    page = tmp_path / "old.html"
    page.write_text("another run's")
    async with serving(FakeGateway({"ExplainRun": grpc.StatusCode.NOT_FOUND})) as address:
        with pytest.raises(CliError):
            await explain(Connection(address, "token"), RUN_ID, quiet(), html=page)
    assert not page.exists()


async def test_it_has_messages_and_state_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = whole.fake_gateway(explained())
    asked = {"name": "execute_db_query", "args": {"query": "SELECT 1"}}
    messages: list[Any] = [
        {"role": "human", "content": "<b>How many?</b>"},
        {"role": "ai", "content": "", "tool_calls": [asked]},
    ]
    gateway.state.values.update({"messages": messages, "iteration_count": 2})
    page = await written(gateway, tmp_path / "why.html")
    # Of five decisions the gateway has what the first three left.
    assert (page.count("How many?"), page.count(NOT_HERE)) == (3, 2)
    assert 'asks for execute_db_query {"query": "SELECT 1"}' in page
    assert '"iteration_count": 2' in page
    assert "<b>How many?" not in (tmp_path / "why.html").read_text()
    # The newest are what a page has room for.
    monkeypatch.setattr(run_states, "MOST_STATE_BYTES", 2 * gateway.state.ByteSize() + 100)
    page = await written(gateway, tmp_path / "why.html")
    assert (page.count("How many?"), page.count(NOT_HERE)) == (2, 3)
    assert page.index(NOT_HERE) < page.index("How many?")


async def test_whoever_may_not_see_the_state_has_the_rest(tmp_path: Path) -> None:
    gateway = whole.fake_gateway(explained())
    gateway.state_failure = whole.refusal(grpc.StatusCode.NOT_FOUND, "no such run")
    page = await written(gateway, tmp_path / "why.html")
    assert page.count(NOT_HERE) == 5
    assert "signalbox state" in page
