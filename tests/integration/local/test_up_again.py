"""`signalbox up` that loses a service, or is started again on its data: nothing that was committed is lost."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from services.local.postgres_files import account_for
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.ports import reserved_port
from tests.integration.local.running_up import Up, all_gone, start_up

QUESTION = "Count devices with temperature > 10"


@pytest.fixture
def data() -> Iterator[Path]:
    """Where to keep a database: not there yet, in a directory that the server's user may enter."""
    parent = Path(tempfile.mkdtemp(prefix="signalbox-data-"))
    parent.chmod(0o755)
    yield parent / "database"
    shutil.rmtree(parent)


async def ask(up: Up) -> str:
    """Asks a question, and returns the id of the run that answered it."""
    asked = await up.run("ask", QUESTION, "--as", "27", "--json")
    assert asked.status == 0, asked.err
    return str(json.loads(asked.out)["run_id"])


async def show(up: Up, run_id: str) -> dict[str, object]:
    shown = await up.run("show", run_id, "--json")
    assert shown.out, shown.err
    run: dict[str, object] = json.loads(shown.out)
    return run


async def ended(up: Up, run_id: str) -> dict[str, object]:
    """The run, once it has ended."""
    async with asyncio.timeout(START_TIMEOUT_S):
        while True:
            run = await show(up, run_id)
            if run["state"] not in ("RUN_STATE_PENDING", "RUN_STATE_RUNNING"):
                return run
            await asyncio.sleep(0.2)


def service(up: Up, name: str) -> psutil.Process:
    content = json.loads((up.runtime_dir / "up" / f"{name}.ready.json").read_text())
    return psutil.Process(content["pid"])


def postmaster(up: Up) -> psutil.Process:
    [found] = [
        each for keeper in psutil.Process(up.process.pid).children() for each in keeper.children()
        if each.name() == "postgres"
    ]  # fmt: skip
    return found


async def test_a_service_that_dies_is_started_again_and_that_is_said(tmp_path: Path) -> None:
    up = await start_up(tmp_path / "run", replicas=1)
    try:
        before = await ask(up)
        for name in ("guard", "runtime", "gateway"):
            died = service(up, name)
            died.kill()
            await up.says(f"{name} was ended by SIGKILL; it is started again now")
            await up.says(f"{name} is back")
            assert service(up, name).pid != died.pid
        await ask(up)
        postmaster(up).kill()
        await up.says("Postgres was ended by SIGKILL")
        await up.says("Postgres is back")
        assert (await ended(up, before))["state"] == "RUN_STATE_SUCCEEDED"
        await answered(up)
    finally:
        assert await up.end(signal.SIGTERM) == 0


async def answered(up: Up) -> None:
    """Asks until it is answered: the services find their database again in their own time."""
    async with asyncio.timeout(START_TIMEOUT_S):
        while (asked := await up.run("ask", QUESTION, "--as", "27", "--timeout", "60")).status != 0:
            assert asked.err
            await asyncio.sleep(0.2)


async def test_nothing_is_lost_when_the_machine_restarts_or_up_is_killed(tmp_path: Path, data: Path) -> None:
    up = await start_up(tmp_path / "run", "--data", str(data), replicas=1)
    before = await ask(up)
    service(up, "offline_model").suspend()
    asked = await up.run("ask", QUESTION, "--as", "27", "--timeout", "3")
    assert asked.status == 9
    [under_way] = {run["run_id"] for run in json.loads((await up.run("runs", "--json")).out)} - {before}
    await power_off(up)

    # What a machine has after its restart: another process under the number that the server had.
    with process_of_the_servers_user() as stranger, reserved_port() as port:
        pid_file = data / "postmaster.pid"
        _, *rest = pid_file.read_text().splitlines(keepends=True)
        pid_file.write_text("".join([f"{stranger.pid}\n", *rest]))
        up = await start_up(tmp_path / "run", "--data", str(data), "--listen", f"127.0.0.1:{port}", replicas=1)
        stranger.kill()
        assert (await ended(up, under_way))["state"] == "RUN_STATE_SUCCEEDED"
        after = await ask(up)
        await up.end(signal.SIGKILL)

    up = await start_up(tmp_path / "run", "--data", str(data), replicas=1)  # while the old server shuts down
    for run_id in (before, under_way, after):
        assert (await show(up, run_id))["state"] == "RUN_STATE_SUCCEEDED"
    await ask(up)
    assert await up.end(signal.SIGTERM) == 0


async def power_off(up: Up) -> None:
    """Kills every process of a platform, its database's too, none of them warned."""
    processes = [psutil.Process(up.process.pid), *psutil.Process(up.process.pid).children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()  # so that none acts on another's end
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it had ended by itself
            process.kill()
    await up.end(signal.SIGKILL)
    await all_gone([process.pid for process in processes])


def process_of_the_servers_user() -> subprocess.Popen[bytes]:
    """A process that has nothing to do with Postgres, of the user that runs the server."""
    account = account_for("nobody")
    user = {} if account.uid is None else {"user": account.uid, "group": account.gid}
    return subprocess.Popen(["sleep", "600"], cwd="/", **user)  # type: ignore[call-overload, no-any-return]
