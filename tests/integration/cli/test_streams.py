"""Standard streams: the command prints in any encoding, and goes on where one of them is closed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import pytest
from signalbox.v1 import data_chat_pb2, runs_pb2

from services.cli.exit_codes import ExitCode
from services.local.settings import inherited_environment
from tests.integration.cli.fake_gateway import FakeGateway, serving

RUN_ID = "00000000-0000-7000-8000-000000000001"
ANSWER = "Zürich → 3 \U0001f600"
# Of all agents; of the limits that are built in it would take seconds.
PROVE = ("prove", "--policies", str(Path(__file__).with_name("few_operations.yaml")))
RUN = runs_pb2.Run(
    run_id=RUN_ID,
    agent="data_chat",
    state=runs_pb2.RUN_STATE_SUCCEEDED,
    output=runs_pb2.RunOutput(data_chat=data_chat_pb2.DataChatOutput(answer=ANSWER)),
)

TOLD = {
    "GetRun": runs_pb2.GetRunResponse(run=RUN),
    "ExplainRun": runs_pb2.ExplainRunResponse(run=runs_pb2.RunExplanation()),
}


async def called(arguments: Sequence[str], *, encoding: str = "utf-8", closed: str = "") -> tuple[int, bytes, bytes]:
    """The command as a process, called by a shell that closes a stream; its status, and what it printed."""
    gateway = FakeGateway(TOLD)
    command = [sys.executable, "-m", "services.cli", *arguments]
    async with serving(gateway) as address, asyncio.timeout(120):
        env = {
            **inherited_environment(), "SIGNALBOX_GATEWAY": address, "SIGNALBOX_TOKEN": "token",
            "PYTHONIOENCODING": encoding,
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", f'exec "$@" {closed}', "sh", *command, env=env,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out, err


async def piped(*arguments: str) -> tuple[int, bytes]:
    """The command as a process whose output nobody reads any more; its status, and what it says."""
    read, write = os.pipe()
    os.close(read)
    gateway = FakeGateway(TOLD)
    async with serving(gateway) as address, asyncio.timeout(120):
        env = {**inherited_environment(), "SIGNALBOX_GATEWAY": address, "SIGNALBOX_TOKEN": "token"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.cli", *arguments, env=env,
            stdin=asyncio.subprocess.DEVNULL, stdout=write, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        os.close(write)
        _, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, err


async def test_what_an_encoding_lacks_is_escaped_and_json_stays_json() -> None:
    encoding = "ascii"
    status, out, err = await called(("show", RUN_ID, "--json"), encoding=encoding)
    assert (status, err) == (ExitCode.OK, b"")
    assert json.loads(out.decode(encoding))["output"]["data_chat"]["answer"] == ANSWER
    status, out, err = await called(("show", RUN_ID), encoding=encoding)
    assert (status, err) == (ExitCode.OK, b"")
    assert r"\u2192 3 \ud83d\ude00" in out.decode(encoding)
    status, out, err = await called(("--help",), encoding=encoding)
    assert (status, err) == (ExitCode.OK, b"")


async def test_a_closed_stream_takes_what_is_printed_and_holds_nothing() -> None:
    assert await called(("show", RUN_ID, "--json"), closed=">&-") == (ExitCode.OK, b"", b"")
    status, out, _ = await called(("show", RUN_ID, "--json"), closed="2>&-")
    assert status == ExitCode.OK
    assert json.loads(out)["run_id"] == RUN_ID
    status, _, err = await called(("run", "data_chat", "--input", "-"), closed="<&-")
    assert status == ExitCode.USAGE
    assert b"standard input is no input of data_chat" in err


@pytest.mark.parametrize(
    "arguments",
    [("show", RUN_ID), ("show", RUN_ID, "--json"), ("--help",), PROVE],
    ids=itemgetter(0),
)
async def test_a_reader_that_has_enough_ends_the_command_quietly(arguments: Sequence[str]) -> None:
    assert await piped(*arguments) == (ExitCode.UNREAD, b"")


async def test_remarks_that_nobody_takes_are_lost_and_nothing_else_is() -> None:
    status, out, _ = await called(("show", RUN_ID), closed="2>/dev/full")
    assert status == ExitCode.OK
    assert ANSWER.encode() in out
    assert (await called(("show",), closed="2>/dev/full"))[0] == ExitCode.USAGE


@pytest.mark.parametrize("arguments", [("show", RUN_ID, "--json"), ("--help",), PROVE], ids=itemgetter(0))
async def test_a_result_that_nothing_takes_is_an_error(arguments: Sequence[str]) -> None:
    status, _, err = await called(arguments, closed=">/dev/full")
    assert status == ExitCode.USAGE
    assert b"No space left on device" in err
    assert b"Traceback" not in err


async def test_lines_end_where_their_words_end() -> None:
    _, out, _ = await called(("show", RUN_ID))
    assert [line for line in out.decode().splitlines() if line != line.rstrip()] == []
