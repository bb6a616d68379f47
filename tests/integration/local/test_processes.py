"""The local supervisor, on real child processes."""

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from services.local.processes import CommandFailed, Program, ServiceProcess, StartFailed, run_to_end, stop_all
from services.local.supervision import keep_running

# A stand-in for a service: writes its ready file, then obeys or ignores SIGTERM.
CHILD = """
import json, os, signal, sys, time
ready, mode, journal = os.environ["SIGNALBOX_READY_FILE"], sys.argv[1], sys.argv[2]
name = os.environ.get("NAME", "child")
def note(what):
    with open(journal, "a") as file:
        file.write(f"{what} {name}\\n")
def on_term(*_):
    note("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "stubborn" else on_term)
print("starting", name, flush=True)
if mode == "silent":
    time.sleep(60)
content = {"listen": os.environ.get("SIGNALBOX_LISTEN", f"127.0.0.1:{os.getpid()}"), "metrics": "127.0.0.1:1"}
if mode == "garbage":
    content = "not an object"
with open(ready + ".part", "w") as file:
    json.dump(content, file)
os.rename(ready + ".part", ready)
note("ready")
while True:
    time.sleep(60)
"""
FAILING = "import sys; print('SIGNALBOX_DATABASE_DSN: field required', file=sys.stderr); sys.exit(2)"


def child(directory: Path, mode: str = "obedient", *, name: str = "child", timeout_s: float = 60) -> ServiceProcess:
    arguments = ["-c", CHILD, mode, str(directory / "journal")]
    return ServiceProcess(Program(name, arguments, {"NAME": name}), directory, ready_timeout_s=timeout_s)


def journal(directory: Path) -> list[str]:
    return (directory / "journal").read_text().splitlines()


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def marked(variable: str) -> list[int]:
    """The processes that have this in their environment."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable.encode() in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
        except OSError:
            continue  # ended meanwhile, or somebody else's
    return found


async def gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while alive(pid):  # noqa: ASYNC110 - another process's end has no event here
            await asyncio.sleep(0.02)


async def test_start_returns_the_addresses_of_the_ready_file(tmp_path: Path) -> None:
    process = child(tmp_path)
    ready = await process.start()
    try:
        assert ready.listen == f"127.0.0.1:{process.pid}"
        assert ready.metrics == "127.0.0.1:1"
        assert process.running
        assert "starting child" in process.logs()
    finally:
        await process.stop()
    assert process.returncode == 0


async def test_a_process_that_ends_before_it_is_ready_fails_with_its_status_and_its_last_words(tmp_path: Path) -> None:
    process = ServiceProcess(Program("runtime", ["-c", FAILING]), tmp_path)
    with pytest.raises(StartFailed, match=r"(?s)runtime ended with status 2 .*SIGNALBOX_DATABASE_DSN: field required"):
        await process.start()


async def test_a_process_that_stays_silent_fails_after_its_time_and_is_not_left_behind(tmp_path: Path) -> None:
    process = child(tmp_path, "silent", timeout_s=1)
    process.log_file.write_text("last words of an earlier start\n")
    with pytest.raises(StartFailed, match=r"(?s)not ready after 1 s.*last words of an earlier start"):
        await process.start()
    assert process.returncode == -signal.SIGKILL


async def test_a_ready_file_that_is_none_fails_the_start(tmp_path: Path) -> None:
    process = child(tmp_path, "garbage")
    with pytest.raises(StartFailed, match="is not a ready file"):
        await process.start()
    assert not process.running


async def test_the_ready_file_of_an_earlier_start_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "child.ready.json").write_text(json.dumps({"listen": "127.0.0.1:9", "metrics": ""}))
    process = child(tmp_path, "silent", timeout_s=0.5)
    with pytest.raises(StartFailed, match="not ready"):
        await process.start()


async def test_a_restart_keeps_the_address(tmp_path: Path) -> None:
    process = child(tmp_path)
    first = await process.start()
    pid = process.pid
    again = await process.restart()
    try:
        assert again == first
        assert process.pid != pid
    finally:
        await process.stop()


async def test_a_process_that_ignores_sigterm_is_killed_when_its_grace_is_over(tmp_path: Path) -> None:
    process = child(tmp_path, "stubborn")
    await process.start()
    await process.stop(grace_s=0.2)
    assert process.returncode == -signal.SIGKILL


async def test_a_process_that_keeps_dying_is_started_again_after_ever_longer_pauses(tmp_path: Path) -> None:
    process = child(tmp_path)
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


async def test_processes_stop_in_the_reverse_order_of_their_start(tmp_path: Path) -> None:
    processes = [child(tmp_path, name=name) for name in ("guard", "runtime", "gateway")]
    for process in processes:
        await process.start()
    await stop_all(processes, grace_s=60)
    assert journal(tmp_path)[3:] == ["stopped gateway", "stopped runtime", "stopped guard"]


async def test_stopping_what_has_died_is_quiet(tmp_path: Path) -> None:
    process = child(tmp_path)
    await process.start()
    await process.kill()
    await process.stop()
    await process.kill()
    assert process.returncode == -signal.SIGKILL


async def test_children_end_when_their_launcher_is_killed(tmp_path: Path) -> None:
    script = f"""
import asyncio, pathlib, sys
sys.path[:0] = {sys.path!r}
from services.local.processes import Program, ServiceProcess
async def main():
    process = ServiceProcess(
        Program("child", ["-c", {CHILD!r}, "stubborn", {str(tmp_path / "journal")!r}]), pathlib.Path({str(tmp_path)!r})
    )
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


async def test_a_terminals_interrupt_does_not_reach_the_children(tmp_path: Path) -> None:
    process = child(tmp_path)
    await process.start()
    try:
        assert os.getpgid(process.pid) != os.getpgid(0)
    finally:
        await process.stop()


async def test_the_environment_is_exactly_what_was_given(tmp_path: Path) -> None:
    os.environ["SIGNALBOX_TEST_LEAK"] = "1"
    try:
        program = Program("env", ["-c", "import json, os; print(json.dumps(dict(os.environ)))"], {"GIVEN": "1"})
        output = await run_to_end(program, tmp_path, timeout_s=60)
    finally:
        del os.environ["SIGNALBOX_TEST_LEAK"]
    seen = json.loads(output)
    assert seen["GIVEN"] == "1"
    assert "SIGNALBOX_TEST_LEAK" not in seen


async def test_a_failed_command_says_what_it_wrote(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"(?s)migrate ended with status 2.*field required"):
        await run_to_end(Program("migrate", ["-c", FAILING]), tmp_path, timeout_s=60)


async def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    hanging = Program("load", ["-c", "import signal; signal.pause()"], {"MARK": str(tmp_path)})
    with pytest.raises(CommandFailed, match="load took longer than 1 s"):
        await run_to_end(hanging, tmp_path, timeout_s=1)
    assert marked(f"MARK={tmp_path}") == []
