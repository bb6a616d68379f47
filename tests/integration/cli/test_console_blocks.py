"""Blocks of `console` in pages that need no platform of their own, typed as they stand: what they print is there."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from pathlib import Path

import grpc
import pytest
from signalbox.v1 import agents_pb2, runs_pb2

from tests.fixtures.certificates import Authority
from tests.fixtures.forked import program
from tests.fixtures.scripted_model import ModelRequest, ScriptedModel
from tests.fixtures.scripted_replies import Reply
from tests.integration.cli.fake_gateway import FakeGateway
from tests.integration.local.test_check_model import IS_QUESTION, able, careful

ROOT = Path(__file__).parents[3]
PAGES = {name: (ROOT / name).read_text() for name in ("README.md", "docs/lift.md", "docs/operations.md")}
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANSWER = "Twelve of them."


def block_with(page: str, words: str) -> str:
    """The one block of a page that has these words."""
    found: list[str] = [each for each in BLOCK.findall(PAGES[page]) if words in each]
    assert len(found) == 1
    return found[0]


async def typed(lines: str, folder: Path, **env: str) -> tuple[int, str, str]:
    """What a shell says of lines, where `signalbox` is the command of this clone."""
    script = folder / "bin" / "signalbox"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec {shlex.join(program("services.cli"))} "$@"\n')
    script.chmod(0o755)
    environment = {"PATH": f"{script.parent}:{os.environ['PATH']}", "HOME": str(folder), "COLUMNS": "200", **env}
    process = await asyncio.create_subprocess_exec(
        "bash", "-eu", "-c", lines, cwd=folder, env=environment,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 240)
    return process.returncode or 0, out.decode(), err.decode()


@pytest.mark.parametrize("command", ["signalbox lift ", "signalbox adopt "])
async def test_tables_are_lifted_and_adopted_as_the_page_shows(tmp_path: Path, command: str) -> None:
    shutil.copytree(ROOT / "examples" / "graphs", tmp_path / "examples" / "graphs")
    typing, *shown = block_with("docs/lift.md", command).splitlines()
    status, out, err = await typed(typing.removeprefix("$ "), tmp_path)
    assert status == 0, err
    printed = iter(line.rstrip() for line in (err + out).splitlines())
    # In this order; what the page leaves out it says.
    missing = [line for line in shown if line != "…" and line not in printed]
    assert missing == []
    if "…" not in shown:
        assert out.split() == "\n".join(shown).split()


async def test_your_model_is_checked(tmp_path: Path) -> None:
    def large(request: ModelRequest) -> Reply:
        return careful(request) if IS_QUESTION in request.last_text else able(request)

    async with ScriptedModel() as endpoint:
        endpoint.respond("large", large)
        lines = block_with("README.md", "signalbox check-model")
        here = lines.replace("https://models.example.com/v1", endpoint.base_url)
        assert here != lines
        status, out, err = await typed(here, tmp_path)
    assert (status, "large" in out) == (0, True), out + err


async def test_the_first_call_from_a_laptop(tmp_path: Path) -> None:
    authority = Authority(tmp_path).issue("gateway")
    run = runs_pb2.Run(run_id="0199a0c0-0000-7000-8000-000000000001", agent="data_chat")
    run.state, run.output.data_chat.answer = runs_pb2.RUN_STATE_SUCCEEDED, ANSWER
    ended = runs_pb2.RunEvent(sequence=1, run_id=run.run_id, run_ended=runs_pb2.RunEnded(run=run))
    fake = FakeGateway(
        {
            "ListAgents": agents_pb2.ListAgentsResponse(agents=[agents_pb2.Agent(name="data_chat")]),
            "ExecuteRun": runs_pb2.ExecuteRunResponse(event=ended),
        }
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((fake,))
    keys = [(authority.key.read_bytes(), authority.cert.read_bytes())]
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(keys))
    await server.start()
    (tmp_path / "token.jwt").write_text("token")
    lines = block_with("docs/operations.md", "SIGNALBOX_GATEWAY_CA=/etc/ssl/certs/ca-certificates.crt")
    here = lines.replace("/etc/ssl/certs/ca-certificates.crt", str(authority.ca))
    here = here.replace("signalbox.example.com:443", f"localhost:{port}")
    try:
        status, out, err = await typed(here, tmp_path)
    finally:
        await server.stop(None)
    assert status == 0, out + err
    assert f"localhost:{port} offers 1 agents" in out + err
    assert ANSWER in out
    assert fake.asked == ["ListAgents", "ExecuteRun"]
    assert b"How many devices do I have?" in fake.requests[-1]
