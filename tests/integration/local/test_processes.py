"""The local supervisor, on real child processes."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from services.local.fork_server import ForkServer
from services.local.processes import CommandFailed, Program, ServiceProcess, StartFailed, run_to_end, stop_all
from services.local.supervision import keep_running

STAND_IN = ("-P", "-m", "tests.integration.local.stand_in")


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer({}) as server:
        yield server


@pytest.fixture(params=["executed", "forked"])
def forks(request: pytest.FixtureRequest) -> ForkServer | None:
    """Whether processes are executed, or forked, which shows in nothing that follows."""
    return request.getfixturevalue("fork_server") if request.param == "forked" else None


class Starts:
    """Makes processes in a directory."""

    def __init__(self, directory: Path, forks: ForkServer | None) -> None:
        self.directory = directory
        self.forks = forks

    def __call__(self, mode: str = "obedient", *, name: str = "child", timeout_s: float = 60) -> ServiceProcess:
        return ServiceProcess(self.program(mode, name), self.directory, ready_timeout_s=timeout_s, forks=self.forks)

    def program(self, mode: str, name: str = "child") -> Program:
        return Program(name, [*STAND_IN, mode, str(self.directory / "journal")], {"SIGNALBOX_NAME": name})

    async def run(self, mode: str, *, timeout_s: float = 60) -> str:
        return await run_to_end(self.program(mode, mode), self.directory, timeout_s=timeout_s, forks=self.forks)


@pytest.fixture
def child(tmp_path: Path, forks: ForkServer | None) -> Starts:
    return Starts(tmp_path, forks)


def journal(directory: Path) -> list[str]:
    return (directory / "journal").read_text().splitlines()


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while alive(pid):  # noqa: ASYNC110 - another process's end has no event here
            await asyncio.sleep(0.02)


async def test_start_returns_the_addresses_of_the_ready_file(child: Starts) -> None:
    process = child()
    ready = await process.start()
    try:
        content = json.loads((child.directory / "child.ready.json").read_text())
        assert content == {"listen": ready.listen, "metrics": ready.metrics}
        assert process.running
        assert "starting child" in process.logs()
    finally:
        await process.stop()
    assert process.returncode == 0


async def test_a_process_that_ends_before_it_is_ready_fails_with_its_status_and_its_last_words(child: Starts) -> None:
    process = child("failing", name="runtime")
    with pytest.raises(StartFailed, match=r"(?s)runtime ended with status 1 .*SIGNALBOX_DATABASE_DSN: field required"):
        await process.start()


async def test_a_process_that_stays_silent_fails_after_its_time_and_is_not_left_behind(child: Starts) -> None:
    process = child("silent", timeout_s=1)
    process.log_file.write_text("last words of an earlier start\n")
    with pytest.raises(StartFailed, match=r"(?s)not ready after 1 s.*last words of an earlier start"):
        await process.start()
    assert process.returncode == -signal.SIGKILL


async def test_a_ready_file_that_is_none_fails_the_start(child: Starts) -> None:
    process = child("garbage")
    with pytest.raises(StartFailed, match="is not a ready file"):
        await process.start()
    assert not process.running


async def test_the_ready_file_of_an_earlier_start_does_not_count(child: Starts, tmp_path: Path) -> None:
    (tmp_path / "child.ready.json").write_text(json.dumps({"listen": "127.0.0.1:9", "metrics": ""}))
    process = child("silent", timeout_s=0.5)
    with pytest.raises(StartFailed, match="not ready"):
        await process.start()


async def test_a_restart_keeps_the_address(child: Starts) -> None:
    process = child()
    first = await process.start()
    pid = process.pid
    again = await process.restart()
    try:
        assert again == first
        assert process.pid != pid
    finally:
        await process.stop()


async def test_a_process_that_ignores_sigterm_is_killed_when_its_grace_is_over(child: Starts) -> None:
    process = child("stubborn")
    await process.start()
    await process.stop(grace_s=0.2)
    assert process.returncode == -signal.SIGKILL


async def test_a_process_that_keeps_dying_is_started_again_after_ever_longer_pauses(child: Starts) -> None:
    process = child()
    first = await process.start()
    said: list[str] = []
    keeping = asyncio.create_task(keep_running(process, said.append, pauses_s=(0, 0.01, 0.02)))
    try:
        for count in range(1, 5):
            process.signal(signal.SIGKILL)
            async with asyncio.timeout(60):
                while len(said) < 2 * count:  # noqa: ASYNC110 - another process's end has no event here
                    await asyncio.sleep(0.01)
            assert process.ready == first
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await process.stop()
    assert said[1::2] == ["child is back"] * 4
    assert [re.findall(r"is started again (now|in \S+ s)", words) for words in said[::2]] == [
        ["now"], ["in 0.01 s"], ["in 0.02 s"], ["in 0.02 s"],
    ]  # fmt: skip


async def test_callers_stop_before_those_they_call(child: Starts, tmp_path: Path) -> None:
    groups = [[child(name="guard"), child(name="evaluator")], [child(name="runtime")], [child(name="gateway")]]
    for group in groups:
        for process in group:
            await process.start()
    await stop_all(groups, grace_s=60)
    stopped = journal(tmp_path)[4:]
    assert stopped[:2] == ["stopped gateway", "stopped runtime"]
    assert sorted(stopped[2:]) == ["stopped evaluator", "stopped guard"]


async def test_stopping_what_has_died_is_quiet(child: Starts) -> None:
    process = child()
    await process.start()
    await process.kill()
    await process.stop()
    await process.kill()
    assert process.returncode == -signal.SIGKILL


async def test_children_end_when_their_launcher_is_killed(child: Starts, tmp_path: Path) -> None:
    script = f"""
import asyncio, pathlib, sys
sys.path[:0] = {sys.path!r}
from services.local.fork_server import ForkServer
from services.local.processes import Program, ServiceProcess
async def main():
    program = Program("child", {child.program("stubborn").arguments!r}, {{}})
    forks = ForkServer({{}}) if {child.forks is not None} else None
    process = ServiceProcess(program, pathlib.Path({str(tmp_path)!r}), forks=forks)
    await process.start()
    print(process.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    launcher = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert launcher.stdout is not None
    pid = int(await asyncio.wait_for(launcher.stdout.readline(), 60))
    assert alive(pid)
    launcher.kill()
    await launcher.wait()
    await gone(pid)


async def test_a_terminals_interrupt_does_not_reach_the_children(child: Starts) -> None:
    process = child()
    await process.start()
    try:
        assert os.getpgid(process.pid) != os.getpgid(0)
    finally:
        await process.stop()


async def test_the_environment_is_exactly_what_was_given(child: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOX_TEST_LEAK", "1")
    monkeypatch.chdir(child.directory)
    seen = json.loads(await child.run("env"))
    assert seen["env"].pop("LC_CTYPE", "C.UTF-8") == "C.UTF-8"  # Python's own
    assert seen == {"env": {"SIGNALBOX_NAME": "env"}, "directory": str(child.directory)}


async def test_a_failed_command_says_what_it_wrote(child: Starts) -> None:
    with pytest.raises(CommandFailed, match=r"(?s)failing ended with status 1.*field required"):
        await child.run("failing")


async def test_a_command_that_hangs_is_killed(child: Starts, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="silent took longer than 1 s"):
        await child.run("silent", timeout_s=1)
    for line in journal(tmp_path):
        assert not alive(int(line.split()[0]))


async def test_what_an_interpreter_reads_at_its_start_is_not_forked(fork_server: ForkServer, tmp_path: Path) -> None:
    for env in ({"PYTHONPATH": str(tmp_path)}, {"LD_PRELOAD": ""}, {"OTEL_SDK_DISABLED": "true"}):
        assert not fork_server.takes([*STAND_IN, "env", ""], env)
    assert not fork_server.takes(["-c", "pass"], {})
    assert fork_server.takes([*STAND_IN, "env", ""], {"SIGNALBOX_NAME": "one", "PGUSER": "two"})


async def test_children_of_a_killed_fork_server_are_started_again_by_another(tmp_path: Path) -> None:
    with ForkServer({}) as server:
        child = Starts(tmp_path, server)
        first, second = child(name="first"), child(name="second")
        ready = await first.start(), await second.start()
        parent = psutil.Process(first.pid).ppid()
        os.kill(parent, signal.SIGKILL)
        assert await first.wait() == await second.wait() == -signal.SIGKILL
        assert (await first.start(), await second.start()) == ready
        assert psutil.Process(first.pid).ppid() == psutil.Process(second.pid).ppid() != parent


async def test_a_child_that_its_launcher_gave_up_is_killed(tmp_path: Path) -> None:
    with ForkServer({}) as server:
        child = Starts(tmp_path, server)("silent")
        starting = asyncio.create_task(child.start())
        async with asyncio.timeout(60):
            while not ((tmp_path / "journal").exists() and journal(tmp_path)):  # noqa: ASYNC110 - another process's doing
                await asyncio.sleep(0.02)
        pid = int(journal(tmp_path)[0].split()[0])
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await gone(pid)
