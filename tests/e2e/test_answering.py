"""`signalbox waiting`, `resume` and `assign`, as processes against a platform whose runs ask people."""

from __future__ import annotations

import asyncio
import os
import pty
from pathlib import Path
from uuid import uuid4

from signalbox.v1 import runs_pb2

from services.cli.exit_codes import ExitCode
from services.cli.graph_edits import edit_request
from services.local.settings import inherited_environment
from tests.fixtures.client import RunClient
from tests.fixtures.forked import program
from tests.fixtures.stack import Platform

TIMEOUT_S = 240.0


async def signalbox(
    running: Platform, directory: Path, who: tuple[str, ...], *arguments: str, types: str | None = None
) -> tuple[int, str]:
    """Runs the command as somebody, who may sit at a terminal and type; returns its status and what it said."""
    subject, *roles = who
    env = {
        **inherited_environment(),
        "SIGNALBOX_GATEWAY": running.stack.gateway_address,
        "SIGNALBOX_TOKEN": running.stack.token(subject, roles),
        "SIGNALBOX_RUNTIME_DIR": str(directory),
        "COLUMNS": "200",
    }
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *program("services.cli"), *arguments, env=env,
        stdin=asyncio.subprocess.DEVNULL if types is None else theirs,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        if types is not None:
            os.write(ours, f"{types}\n".encode())
        async with asyncio.timeout(TIMEOUT_S):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)
        os.close(theirs)
    return process.returncode or 0, said.decode()


async def asks(client: RunClient, goal: str) -> str:
    """Asks for a goal about which somebody is asked, and returns the run's id."""
    events = [event async for event in client.execute(edit_request(goal))]
    assert events[-1].state_changed.state == runs_pb2.RUN_STATE_AWAITING_INPUT, events[-1]
    return events[-1].run_id


async def test_an_approver_is_told_what_waits_and_answers_it(asking: Platform, tmp_path: Path) -> None:
    ticket, ann, bob = f"T-{uuid4().hex[:8]}", ("ann",), ("bob", "approver")
    client = asking.caller("ann")
    async for _ in client.execute(edit_request(f"Create a ticket with the key '{ticket}'.")):
        pass
    run_id = await asks(client, f"Delete the ticket {ticket}.")

    status, said = await signalbox(asking, tmp_path, ann, "waiting")
    assert (status, run_id in said, "role approver; you may not" in said) == (ExitCode.OK, True, True), said
    status, said = await signalbox(asking, tmp_path, ann, "resume", run_id, "--answer", "approve")
    assert (status != ExitCode.OK, "may not answer this question" in said) == (True, True), said
    status, said = await signalbox(asking, tmp_path, ("eve",), "waiting")
    assert (status, run_id in said) == (ExitCode.OK, False), said

    status, said = await signalbox(asking, tmp_path, bob, "waiting")
    assert (status, f"Delete the node Ticket '{ticket}'." in said, "for ann" in said) == (ExitCode.OK, True, True)
    status, said = await signalbox(asking, tmp_path, bob, "resume", run_id, "--answer", "perhaps")
    assert (status != ExitCode.OK, "approve, decline" in said) == (True, True), said
    status, said = await signalbox(asking, tmp_path, bob, "assign", run_id, "carl")
    assert (status, "role approver, carl" in said) == (ExitCode.OK, True), said
    status, said = await signalbox(asking, tmp_path, ("carl",), "resume", run_id, "--answer", "approve")
    assert (status, "has its answer and continues" in said) == (ExitCode.OK, True), said

    async for _ in client.watch(run_id):
        pass
    assert (await client.get(run_id)).state == runs_pb2.RUN_STATE_SUCCEEDED
    status, said = await signalbox(asking, tmp_path, bob, "resume", run_id, "--answer", "approve")
    assert (status, "has been answered" in said) == (ExitCode.REFUSED, True), said


async def test_an_approver_of_their_own_run_sees_what_comes_of_it(asking: Platform, tmp_path: Path) -> None:
    ticket, ann = f"T-{uuid4().hex[:8]}", ("ann", "approver")
    client = asking.caller("ann", ["approver"])
    async for _ in client.execute(edit_request(f"Create a ticket with the key '{ticket}'.")):
        pass
    run_id = await asks(client, f"Delete the ticket {ticket}.")
    status, said = await signalbox(asking, tmp_path, ann, "resume", run_id, "--answer", "approve")
    assert (status, ticket in said, "goes on" in said) == (ExitCode.OK, True, False), said
    assert (await client.get(run_id)).state == runs_pb2.RUN_STATE_SUCCEEDED


async def test_at_a_terminal_the_command_asks(asking: Platform, tmp_path: Path) -> None:
    run_id = await asks(asking.caller("ann"), "My dashboard is broken. Fix it.")
    status, said = await signalbox(asking, tmp_path, ("ann",), "resume", run_id)
    assert (status, "no answer was given" in said) == (ExitCode.USAGE, True), said
    status, said = await signalbox(asking, tmp_path, ("ann",), "resume", run_id, types="leave it as it is")
    assert (status, "It was declined" in said) == (ExitCode.OK, True), said
