"""The embedded graph database: kept, told apart from what is missing, and no reason for the platform not to start."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from services.graph_executor.falkor import Falkor
from services.local import falkordb
from services.local.falkordb import FalkorServer
from services.local.postgres import PostgresStartError
from services.local.processes import StartFailed
from services.local.stack import LocalStack
from services.local.supervision import supervise
from services.local.topology import GRAPH_EXECUTOR, StackOptions
from tests.fixtures.stack import FORKS

POLICY = 'version: 1\nlabels: {Ticket: {}}\nroles: {"*": {write: "*"}}\n'


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="graph-") as made:
        yield Path(made)


async def nodes(server: FalkorServer) -> int:
    falkor = Falkor(server.url, ca=None, connections=1, wait_s=5, timeout_ms=5000)
    try:
        await falkor.query("g", "CREATE (:Ticket)", {})
        [[count]] = (await falkor.read("g", "MATCH (t:Ticket) RETURN count(t)", {})).result_set
        return int(count)
    finally:
        await falkor.aclose()


async def test_what_was_written_is_there_after_a_kill_and_after_a_stop(directory: Path) -> None:
    for number, end in enumerate((FalkorServer.kill, FalkorServer.stop, FalkorServer.stop), 1):
        server = FalkorServer(directory)
        await server.start()
        assert await nodes(server) == number
        await end(server)


async def test_a_directory_is_one_servers_at_a_time(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(falkordb, "GONE_S", 0.1, raising=False)
    first = FalkorServer(directory)
    await first.start()
    try:
        assert await nodes(first) == 1
        second = FalkorServer(directory)
        with pytest.raises(StartFailed, match=r"is in use by another graph database"):
            await second.start()
        assert await nodes(first) == 2, "the first is not reached any more"
    finally:
        await first.stop()


async def test_a_server_that_just_ends_is_waited_for(directory: Path) -> None:
    first, second = FalkorServer(directory), FalkorServer(directory)
    await first.start()
    assert await nodes(first) == 1
    starting = asyncio.create_task(second.start())
    await asyncio.sleep(0)
    await first.kill()
    await starting
    assert await nodes(second) == 2
    await second.stop()


async def test_a_start_that_is_cancelled_leaves_no_server(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()

    async def answers(_: FalkorServer) -> bool:
        asked.set()
        return False

    monkeypatch.setattr(FalkorServer, "_answers", answers)
    starting = asyncio.create_task(FalkorServer(directory).start())
    await asked.wait()
    server = await server_on(directory)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not server.is_running()


async def server_on(directory: Path) -> psutil.Process:
    """The child of ours that is told of a directory; while it becomes another program, it is told of nothing."""
    async with asyncio.timeout(60):
        while True:
            for each in psutil.Process().children():
                if any(str(directory) in word for word in each.cmdline()):
                    return each
            await asyncio.sleep(0.01)


async def test_a_path_that_no_socket_can_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="too long for a Unix socket"):
        await FalkorServer(tmp_path / ("x" * 120)).start()


async def test_a_missing_library_is_named(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(falkordb, "_LIBRARY", "libnosuchthing.so.1")
    with pytest.raises(StartFailed, match=r"needs the library libnosuchthing.so.1; install it"):
        await FalkorServer(directory).start()


async def test_a_platform_has_a_graph_executor_where_it_can(directory: Path) -> None:
    policy = directory / "graph_policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    async with LocalStack(StackOptions(graph_policy=policy, directory=directory / "stack"), forks=FORKS) as stack:
        assert stack.service(GRAPH_EXECUTOR).running


def somebodys_project(directory: Path) -> Path:
    """A directory that holds other things than a platform's, among them one of the graph database's name."""
    directory.chmod(0o711)  # for the account that Postgres runs as when we are root
    project = directory / "project"
    (project / "graph").mkdir(parents=True)
    for name in ("README.md", "graph/notes.txt"):
        (project / name).write_text("somebody's own", encoding="utf-8")
    return project


async def test_nothing_is_written_to_a_directory_that_is_refused(directory: Path) -> None:
    policy = directory / "graph_policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    project = somebodys_project(directory)
    before = sorted(project.rglob("*"))
    options = StackOptions(graph_policy=policy, data_dir=project, directory=directory / "stack")
    with pytest.raises(PostgresStartError, match="holds files, but no database"):
        async with LocalStack(options):
            pytest.fail("it started")
    assert sorted(project.rglob("*")) == before


async def test_a_platform_that_is_supervised_gets_its_graph_database_back(directory: Path) -> None:
    policy = directory / "graph_policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    said: list[str] = []
    async with LocalStack(StackOptions(graph_policy=policy, directory=directory / "stack"), forks=FORKS) as stack:
        supervising = asyncio.create_task(supervise(stack, said.append))
        try:
            assert await nodes(stack.graph_database) == 1
            for count in (1, 2):
                (await server_on(directory / "stack" / "graph")).kill()
                async with asyncio.timeout(60):
                    while len(said) < 2 * count:  # noqa: ASYNC110 - another process's end has no event here
                        await asyncio.sleep(0.01)
                assert await nodes(stack.graph_database) == count + 1, "it is not back, where it was, with what it held"
        finally:
            supervising.cancel()
            await asyncio.gather(supervising, return_exceptions=True)
    log = stack.graph_database.log_file
    ended = "the graph database was ended by SIGKILL; it is started again"
    assert said == [
        f"{ended} now (its log: {log})", "the graph database is back",
        f"{ended} in 1 s (its log: {log})", "the graph database is back",
    ]  # fmt: skip


async def test_a_platform_starts_without_the_graph_database_where_it_can_not(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(falkordb, "_LIBRARY", "libnosuchthing.so.1")
    policy = directory / "graph_policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    said: list[str] = []
    options = StackOptions(graph_policy=policy, directory=directory / "stack")
    async with LocalStack(options, report=said.append, forks=FORKS) as stack:
        assert GRAPH_EXECUTOR not in [service.name for service in stack.services]
    assert any("going without the graph executor" in line and "libnosuchthing" in line for line in said), said
