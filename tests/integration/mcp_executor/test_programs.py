"""Servers as programs beside the executor: that say too much, hang, die, or do not want to end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from services.kit.identity.keys import KeyPair
from tests.fixtures.forked import TOOL_SERVERS, program
from tests.integration.mcp_executor.conftest import Executor, accepted, executing, found, write_servers

ROOT = Path(__file__).parents[3]
TOOLS: dict[str, Any] = {
    **{name: {} for name in ("search", "long_text", "flood", "junk", "storm")},
    "hang": {"name": "tickets_broken"},
    "die": {"effect": "writes", "name": "note"},
}


async def servers(folder: Path, command: list[str] | None = None) -> Path:
    """Writes the file of one program, all of whose tools are accepted."""
    given = {"environment": {"PYTHONPATH": str(ROOT)}, "tools": TOOLS}
    file = write_servers(folder, command=list(program("tests.fixtures.odd_mcp", TOOL_SERVERS)), **given)
    assert await accepted(file) == 0
    return write_servers(folder, command=command, **given) if command else file


async def away(executor: Executor, tool: str, **arguments: Any) -> str:
    """How a call fails of a program that does not answer."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await executor.call(tool, **arguments)
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    return failed.value.details() or ""


async def test_a_program_that_says_too_much_is_read_no_further(tmp_path: Path, keys: KeyPair) -> None:
    file = await servers(tmp_path)
    async with executing(file, keys, mcp_answer_bytes=50_000) as executor:
        says: tuple[tuple[str, dict[str, Any]], ...] = (
            ("tickets_flood", {"length": 10_000_000}),
            ("tickets_storm", {}),
            ("tickets_storm", {"answers": True}),
        )
        for tool, arguments in says:
            # It has hung up, as far as its caller is concerned; that is no time-out.
            assert "no result within" not in await away(executor, tool, **arguments)
            assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]


async def test_an_answer_that_is_too_large_is_its_calls_failure(tmp_path: Path, keys: KeyPair) -> None:
    file = await servers(tmp_path)
    async with executing(file, keys, mcp_answer_bytes=50_000) as executor:
        answer = await executor.call("tickets_long_text", length=100_000)
        assert (answer.error.reason, "larger than 50,000 bytes" in answer.error.message) == ("tool_failed", True)
        # The program begins anew for the next, which is heard.
        assert (await executor.call("note", writes=True)).error.reason == "outcome_unknown"
        assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]


@pytest.mark.parametrize("said", ["", '{"jsonrpc": "2.0"'])
async def test_a_program_that_hangs_is_begun_anew(tmp_path: Path, keys: KeyPair, said: str) -> None:
    file = await servers(tmp_path)
    async with executing(file, keys, mcp_call_timeout_s=5) as executor:
        assert "no result within 5 s" in await away(executor, "tickets_broken", said=said)
        assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]


async def test_words_that_are_no_message_are_passed_over(tmp_path: Path, keys: KeyPair) -> None:
    file = await servers(tmp_path)
    async with executing(file, keys) as executor:
        for _ in range(3):
            assert (await executor.call("tickets_junk", lines=900)).output.text == "done"


async def test_of_a_write_by_a_program_that_dies_nothing_is_claimed(tmp_path: Path, keys: KeyPair) -> None:
    file = await servers(tmp_path)
    async with executing(file, keys) as executor:
        assert (await executor.call("note", writes=True)).error.reason == "outcome_unknown"
        assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]


@pytest.mark.parametrize("command", [[sys.executable, "-c", "import time; time.sleep(600)"], ["/no/such/program"]])
async def test_a_program_that_does_not_start_is_away(tmp_path: Path, keys: KeyPair, command: list[str]) -> None:
    file = await servers(tmp_path, command)
    async with executing(file, keys, mcp_connect_timeout_s=0.5) as executor:
        assert "the MCP server tickets does not answer" in await away(executor, "tickets_search", words="login")


async def test_a_program_that_does_not_want_to_end_is_ended_with_what_it_has_started(
    tmp_path: Path, keys: KeyPair
) -> None:
    file = await servers(tmp_path, [sys.executable, "-P", "-m", "tests.fixtures.odd_mcp", str(tmp_path / "pids")])
    async with executing(file, keys) as executor:
        assert found(await executor.call("tickets_search", words="login")) == ["Fix login"]
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert all(map(psutil.pid_exists, pids))
    started = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, left = await asyncio.to_thread(psutil.wait_procs, started, 20)
    assert [process for process in left if process.status() != psutil.STATUS_ZOMBIE] == []
