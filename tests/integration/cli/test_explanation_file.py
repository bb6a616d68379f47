"""`signalbox explain --html`: no page of an earlier time is left where this run's could not be written."""

from __future__ import annotations

import io
from pathlib import Path

import grpc
import pytest
from rich.console import Console

from services.cli.client import Connection
from services.cli.errors import CliError
from services.cli.runs import explain
from services.cli.terminal import Terminal
from tests.integration.cli.fake_gateway import FakeGateway, serving


async def test_a_page_of_an_earlier_time_is_removed_first(tmp_path: Path) -> None:
    page = tmp_path / "old.html"
    page.write_text("another run's")
    terminal = Terminal(out=Console(file=io.StringIO()), err=Console(file=io.StringIO()))
    async with serving(FakeGateway({"ExplainRun": grpc.StatusCode.NOT_FOUND})) as address:
        with pytest.raises(CliError):
            await explain(Connection(address, "token"), "00000000-0000-7000-8000-000000000001", terminal, html=page)
    assert not page.exists()
