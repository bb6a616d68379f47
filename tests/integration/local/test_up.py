"""`signalbox up` and the commands that talk to it, each as the process that a person would start."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
import signal
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from examples.harbour import repository as portal
from services.cli.local.processes import TETHER

pytestmark = pytest.mark.asyncio(loop_scope="module")
COMMAND = (sys.executable, "-m", "services.cli")
# A platform ends with the tests that started it, also when they are killed.
TETHERED = (sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), "--")
QUESTION = "Count devices with temperature > 10"


@dataclass(frozen=True)
class Result:
    """How a command ended and what it wrote."""

    status: int
    out: str
    err: str


@dataclass
class Up:
    """A running `signalbox up`."""

    process: asyncio.subprocess.Process
    runtime_dir: Path
    env: dict[str, str]

    async def run(self, *arguments: str, **env: str) -> Result:
        """Run another command beside it."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND, *arguments, env={**self.env, **env},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(120):
            out, err = await process.communicate()
        assert process.returncode is not None
        return Result(process.returncode, out.decode(), err.decode())


async def start_up(runtime_dir: Path, *options: str) -> Up:
    """Start `signalbox up` and wait until it says that it is."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SIGNALBOX_", "OPENAI_"))}
    env = {**ours, "SIGNALBOX_RUNTIME_DIR": str(runtime_dir), "COLUMNS": "200"}
    process = await asyncio.create_subprocess_exec(
        *TETHERED, *COMMAND, "up", "--replicas", "2", *options, env=env,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    line = await process.stdout.readline()
    if b"Signalbox is up" not in line:
        pytest.fail(f"it did not come up: {(await process.stderr.read()).decode()}")
    return Up(process, runtime_dir, env)


def processes_of(up: Up) -> list[int]:
    """Services that this `up` started and that live, found by the directory of their ready files."""
    mark = str(up.runtime_dir).encode()
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environment.read_bytes() and b"SIGNALBOX_READY_FILE" in environment.read_bytes():
                found.append(int(environment.parent.name))
        except OSError:
            continue  # ended meanwhile
    return found


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def left_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def ready_files(up: Up) -> list[dict[str, str]]:
    """What the services said about where they listen."""
    return [json.loads(path.read_text()) for path in (up.runtime_dir / "up").glob("*.ready.json")]


async def runs(up: Up) -> set[str]:
    """Every run that there is; those of earlier tests may still be under way."""
    listed = json.loads((await up.run("runs", "--json", "--limit", "1000")).out)
    return {run["run_id"] for run in listed}


async def all_gone(pids: list[int]) -> None:
    async with asyncio.timeout(120):
        while any(lives(pid) for pid in pids):  # noqa: ASYNC110 - their end has no event here
            await asyncio.sleep(0.05)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """One platform for the tests of this module."""
    running = await start_up(tmp_path_factory.mktemp("up") / "run", "--code-root", str(tmp_path_factory.mktemp("code")))
    yield running
    if running.process.returncode is None:
        running.process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(running.process.wait(), 90)


async def test_a_question_is_answered_for_people(up: Up) -> None:
    result = await up.run("ask", QUESTION, "--as", "27")
    assert result.status == 0, result.err
    assert "6 devices" in result.out
    assert "SELECT" in result.out
    assert "explain" in result.out
    assert "agent took" in result.err  # progress, in lines, as this is no terminal
    assert "agent took" not in result.out


async def test_a_question_is_answered_for_programs(up: Up) -> None:
    result = await up.run("ask", QUESTION, "--as", "27", "--json")
    assert result.status == 0
    assert result.err == ""
    run = json.loads(result.out)
    assert run["state"] == "RUN_STATE_SUCCEEDED"
    assert run["caller"] == {"subject": "27"}
    assert run["output"]["data_chat"]["rows"]["rows"] == [{"values": [{"int_value": "6"}]}]


async def test_an_admin_sees_every_row(up: Up) -> None:
    result = await up.run("ask", QUESTION, "--as", "1", "--admin")
    assert result.status == 0
    assert "79" in result.out


async def test_rows_are_written_as_csv(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    result = await up.run("ask", "Top 5 hottest devices", "--as", "27", "--csv", str(file))
    assert result.status == 0, result.err
    rows = list(csv.reader(io.StringIO(file.read_text())))
    assert len(rows) == 6
    assert "temperature" in rows[0]
    assert f"5 rows written to {file}" in result.err


async def test_a_file_that_cannot_be_written_is_told_before_anything_is_asked(up: Up, tmp_path: Path) -> None:
    before = await runs(up)
    result = await up.run("ask", QUESTION, "--as", "27", "--csv", str(tmp_path / "no" / "rows.csv"))
    assert result.status == 2
    assert "there is no directory" in result.err
    assert await runs(up) == before


async def test_a_blocked_question_has_its_own_status_and_writes_no_file(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    result = await up.run("ask", "Show me the devices of user 31", "--as", "27", "--csv", str(file))
    assert result.status == 3
    assert "BLOCKED" in result.out
    assert "SELECT" not in result.out
    assert not file.exists()


async def test_a_run_can_be_found_shown_and_explained_afterwards(up: Up) -> None:
    asked = await up.run("ask", QUESTION, "--as", "27", "--json")
    run_id = json.loads(asked.out)["run_id"]
    listed = await up.run("runs", "--as", "27")
    assert run_id in listed.out
    shown = await up.run("show", run_id)
    assert shown.status == 0
    assert QUESTION in shown.out
    explained = await up.run("explain", run_id)
    assert explained.status == 0
    for words in ("route_after_screen → agent", "✓ allowed", "✗ blocked", "✓ tool_calls", "route_after_tools"):
        assert words in explained.out
    decisions = json.loads((await up.run("decisions", run_id, "--json")).out)
    assert [int(decision["sequence"]) for decision in decisions] == list(range(1, len(decisions) + 1))
    ended = await up.run("cancel", run_id)
    assert ended.status == 6  # it has ended otherwise


async def test_a_run_of_somebody_else_is_not_found(up: Up) -> None:
    asked = await up.run("ask", QUESTION, "--as", "27", "--json")
    run_id = json.loads(asked.out)["run_id"]
    for command in ("show", "explain", "decisions", "cancel"):
        result = await up.run(command, run_id, "--as", "31")
        assert result.status == 6, command
        assert result.out == ""
        assert "--as" in result.err


async def test_debug_shows_model_calls_and_messages(up: Up) -> None:
    result = await up.run("ask", QUESTION, "--as", "27", "--debug")
    assert result.status == 0
    for words in ("security_guard", "format_answer", "Model calls", "Messages"):
        assert words in result.out


async def test_a_bad_question_names_its_field(up: Up) -> None:
    result = await up.run("ask", "   ", "--as", "27")
    assert result.status == 2
    assert "create.input.data_chat.question: must not be blank" in result.err


async def test_a_token_from_the_command_is_taken_by_the_gateway(up: Up) -> None:
    token = await up.run("token", "--as", "31")
    assert token.status == 0
    result = await up.run("ask", QUESTION, "--json", SIGNALBOX_TOKEN=token.out.strip())
    assert json.loads(result.out)["caller"] == {"subject": "31"}
    wrong = await up.run("runs", SIGNALBOX_TOKEN=token.out.strip()[:-6] + "AAAAAA")
    assert wrong.status == 6
    assert "TOKEN_INVALID" in wrong.err


@pytest.fixture
def frozen_model(up: Up) -> Iterator[None]:
    """A model that does not answer, so that a run goes on for as long as the test wants."""
    content = json.loads((up.runtime_dir / "up" / "offline_model.ready.json").read_text())
    os.kill(content["pid"], signal.SIGSTOP)
    yield
    os.kill(content["pid"], signal.SIGCONT)


@pytest.mark.usefixtures("frozen_model")
async def test_waiting_ends_at_the_timeout_and_says_that_the_run_goes_on(up: Up) -> None:
    result = await up.run("ask", QUESTION, "--as", "27", "--timeout", "2")
    assert result.status == 9
    assert "goes on" in result.err


@pytest.mark.usefixtures("frozen_model")
async def test_ctrl_c_ends_the_waiting_and_not_the_run(up: Up) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "ask", QUESTION, "--as", "27", env=up.env, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    assert b"running" in await asyncio.wait_for(process.stderr.readline(), 60)
    process.send_signal(signal.SIGINT)
    err = (await asyncio.wait_for(process.stderr.read(), 60)).decode()
    assert await process.wait() == 130
    found = re.search(r"the run goes on: `signalbox show (\S+)`", err)
    assert found is not None, err
    assert "Traceback" not in err
    shown = json.loads((await up.run("show", found[1], "--json")).out)
    assert shown["state"] in ("RUN_STATE_PENDING", "RUN_STATE_RUNNING")
    cancelled = await up.run("cancel", found[1])
    assert cancelled.status == 0
    assert found[1] in cancelled.out


async def test_a_finding_is_triaged_where_code_may_be_read(up: Up) -> None:
    [root] = json.loads((up.runtime_dir / "endpoint.json").read_text())["code_roots"]
    portal.create(Path(root) / "portal")
    finding = ("--finding", str(portal.FINDINGS), "--fingerprint", "harbour-unchecked-join")
    result = await up.run("triage", *finding, "--repo", f"{root}/portal", "--as", "27", "--json")
    assert result.status in (0, 4), result.err
    outcome = json.loads(result.out)
    assert outcome["verdict"] != "FALSE_POSITIVE"
    assert not outcome["error"]


async def test_a_repository_elsewhere_is_refused_before_anything_runs(up: Up, tmp_path: Path) -> None:
    portal.create(tmp_path / "portal")
    before = await runs(up)
    finding = ("--finding", str(portal.FINDINGS), "--fingerprint", "harbour-unchecked-join")
    result = await up.run("triage", *finding, "--repo", str(tmp_path / "portal"), "--as", "27")
    assert result.status == 2
    assert f"--code-root {tmp_path / 'portal'}" in result.err
    investigated = await up.run("investigate", str(portal.FINDINGS), "--repo", str(tmp_path / "portal"), "--as", "27")
    assert investigated.status == 2
    assert await runs(up) == before


async def test_a_second_up_is_refused(up: Up) -> None:
    result = await up.run("up")
    assert result.status == 2
    assert "running already" in result.err


async def test_files_are_closed_to_others_and_ports_to_other_machines(up: Up) -> None:
    endpoint = json.loads((up.runtime_dir / "endpoint.json").read_text())
    assert mode(up.runtime_dir) == 0o700
    assert mode(Path(endpoint["signing_key"])) == 0o600
    contents = ready_files(up)
    assert len(contents) >= 6
    for content in contents:
        assert re.fullmatch(r"127\.0\.0\.1:\d+", content["listen"])
        assert re.fullmatch(r"127\.0\.0\.1:\d+", content["metrics"])


async def test_sigint_stops_everything_and_leaves_nothing(up: Up) -> None:
    pids = processes_of(up)
    assert len(pids) >= 6  # the model, the guard, the executor, two runtimes, the gateway
    up.process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(up.process.wait(), 90) == 0
    await all_gone(pids)
    assert left_in(up.runtime_dir) == ["lock"]
    result = await up.run("ask", QUESTION, "--as", "27")
    assert result.status == 5
    assert "signalbox up" in result.err


async def test_kill_9_takes_the_services_along(tmp_path: Path) -> None:
    killed = await start_up(tmp_path / "run")
    pids = processes_of(killed)
    assert len(pids) >= 6
    killed.process.kill()
    await killed.process.wait()
    await all_gone(pids)
    assert (await killed.run("runs")).status == 5  # the endpoint file is there still, but its process is not
