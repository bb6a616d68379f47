"""The embedded Postgres: it serves, it is private, and it leaves nothing behind however its launcher ends."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from services.local import postgres_files, postgres_keeper
from services.local.postgres import EmbeddedPostgres, EmbeddedPostgresError, PostgresStartError, Restart
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.postgres import PostgresCluster, TemplateDatabase

ROOT = Path(__file__).resolve().parents[3]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory that the server's user may enter, as the only place for temporary files."""
    path = Path(tempfile.mkdtemp(prefix="signalbox-scratch-"))
    path.chmod(0o755)  # unlike tmp_path, which is private to root
    monkeypatch.setenv("TMPDIR", str(path))
    yield path
    shutil.rmtree(path)


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting until {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children() -> set[str]:
    tasks = Path("/proc/self/task")
    return {pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()}


def test_serves_with_extensions_and_leaves_nothing(scratch: Path) -> None:
    with EmbeddedPostgres(durable=False) as server:
        pid = server.pid
        with psycopg.connect(server.dsn()) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute("CREATE EXTENSION pg_trgm")
            row = connection.execute("SELECT '[1,2]'::vector <-> '[1,4]', similarity('ship', 'ships') > 0.5").fetchone()
        assert row == (2.0, True)
        assert list(scratch.iterdir())
    assert not alive(pid)
    assert list(scratch.iterdir()) == []


async def test_is_an_async_context_manager(scratch: Path) -> None:
    async with EmbeddedPostgres(durable=False) as server:
        async with await psycopg.AsyncConnection.connect(server.dsn()) as connection:
            cursor = await connection.execute("SHOW listen_addresses")
            assert await cursor.fetchone() == ("127.0.0.1",)
        pid = server.pid
    assert not alive(pid)
    assert not any(scratch.iterdir())  # noqa: ASYNC240 - a test may block


async def test_a_start_that_is_cancelled_leaves_nothing(scratch: Path) -> None:
    before = children()
    starting = asyncio.create_task(EmbeddedPostgres(durable=False).__aenter__())
    while not any(scratch.iterdir()):  # noqa: ASYNC110, ASYNC240 - the keeper makes its directory there
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert children() == before
    assert not any(scratch.iterdir())  # noqa: ASYNC240 - a test may block


@pytest.mark.parametrize(("durable", "fsync"), [(True, "on"), (False, "off")])
def test_durability_is_chosen(durable: bool, fsync: str) -> None:
    with EmbeddedPostgres(durable=durable) as server, psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SHOW fsync").fetchone() == (fsync,)
        assert connection.execute("SHOW max_connections").fetchone() == ("200",)


def test_a_password_is_needed(postgres_cluster: PostgresCluster) -> None:
    for password in (None, "", "guess"):
        dsn = f"host=127.0.0.1 port={postgres_cluster.server.port} user=postgres dbname=postgres"
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(dsn, password=password, passfile="/dev/null")


def test_names_and_passwords_are_quoted_in_the_dsn(postgres_cluster: PostgresCluster) -> None:
    with psycopg.connect(postgres_cluster.dsn(), autocommit=True) as connection:
        connection.execute("""CREATE ROLE "a@b/c" LOGIN PASSWORD 'p:w/d@%?'""")
        try:
            with psycopg.connect(postgres_cluster.dsn(user="a@b/c", password="p:w/d@%?")) as other:
                assert other.execute("SELECT current_user").fetchone() == ("a@b/c",)
        finally:
            connection.execute('DROP ROLE "a@b/c"')


def test_a_kept_data_directory_is_reused_with_a_new_password(scratch: Path) -> None:
    data = scratch / "kept"
    with EmbeddedPostgres(data_dir=data) as server:
        first = server.dsn()
        with psycopg.connect(first) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    assert [path.name for path in scratch.iterdir()] == ["kept"]
    with EmbeddedPostgres(data_dir=data) as server:
        assert server.dsn().split("@")[0] != first.split("@")[0]
        with psycopg.connect(server.dsn()) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


def test_a_data_directory_in_use_is_refused(scratch: Path) -> None:
    with EmbeddedPostgres(data_dir=scratch / "kept", durable=False) as server:
        with pytest.raises(PostgresStartError, match=r"postmaster\.pid"):
            EmbeddedPostgres(data_dir=scratch / "kept").start()
        with psycopg.connect(server.dsn()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_pid_file_of_a_dead_server_does_not_count(scratch: Path) -> None:
    with EmbeddedPostgres(data_dir=scratch / "kept", durable=False) as server:
        pid = server.pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid), "the server is dead")
    account = postgres_files.account_for("nobody")
    user = {} if account.uid is None else {"user": account.uid, "group": account.gid}
    # Whoever has its number by now; Postgres itself would take that one for a server.
    with subprocess.Popen(["sleep", "600"], **user) as stranger:  # type: ignore[call-overload]
        (scratch / "kept" / "postmaster.pid").write_text(f"{stranger.pid}\n{scratch / 'kept'}\n")
        again = EmbeddedPostgres(data_dir=scratch / "kept", durable=False)
        with again as server, psycopg.connect(server.dsn()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        stranger.kill()


def test_a_server_that_shuts_down_is_waited_for(scratch: Path) -> None:
    with EmbeddedPostgres(data_dir=scratch / "kept", durable=False) as first:
        pid = first.pid
        os.kill(pid, signal.SIGSTOP)
        with ThreadPoolExecutor() as threads:
            stopping = threads.submit(first.stop)
            second = EmbeddedPostgres(data_dir=scratch / "kept", durable=False)
            starting = threads.submit(second.start)
            os.kill(pid, signal.SIGCONT)
            stopping.result()
            starting.result()
        with psycopg.connect(second.dsn()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        second.stop()


@pytest.mark.parametrize("moved", [0, 3], ids=["while it was made", "while it was moved in"])
def test_a_first_start_that_was_cut_off_is_made_good(scratch: Path, moved: int) -> None:
    data = scratch / "kept"
    with EmbeddedPostgres(data_dir=data, durable=False):
        pass
    if moved:
        beside = data / "initialised"
        entries = sorted(data.iterdir(), key=lambda each: each.name == "PG_VERSION")
        beside.mkdir(mode=0o700)
        for entry in entries[moved:]:
            entry.rename(beside / entry.name)
    else:
        shutil.rmtree(data)
        (data / "initialising" / "base").mkdir(parents=True)
        (data / "initialising" / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(data_dir=data, durable=False) as server, psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert not {"initialising", "initialised"} & {entry.name for entry in data.iterdir()}


def test_a_directory_with_other_files_is_left_alone(scratch: Path) -> None:
    (scratch / "letters").mkdir()
    (scratch / "letters" / "to-mother.txt").write_text("dear")
    with pytest.raises(PostgresStartError, match="holds files, but no database"):
        EmbeddedPostgres(data_dir=scratch / "letters").start()
    assert [path.name for path in (scratch / "letters").iterdir()] == ["to-mother.txt"]


async def test_a_server_that_dies_is_started_again_on_its_files_and_port(scratch: Path) -> None:
    async with EmbeddedPostgres(restart=True) as server, asyncio.timeout(START_TIMEOUT_S):
        with psycopg.connect(server.dsn()) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        restarts = server.restarts()
        for _ in range(2):
            pid = server.pid
            os.kill(pid, signal.SIGKILL)
            assert await anext(restarts) == Restart(-signal.SIGKILL)
            assert server.pid != pid
            with psycopg.connect(server.dsn()) as connection:
                assert connection.execute("SELECT n FROM kept").fetchone() == (7,)
    assert not any(scratch.iterdir())  # noqa: ASYNC240 - a test may block


class Unstartable:
    """A cluster whose server has ended and can't be started again, of which each attempt's end is signalled."""

    running = False
    status = 1

    def __init__(self, notify: socket.socket, launcher: int, *, attempts: int) -> None:
        self._notify, self._launcher, self._attempts = notify, launcher, attempts
        self.tried_at: list[float] = []

    def restart(self) -> int:
        self.tried_at.append(time.monotonic())
        self._notify.send(bytes([signal.SIGCHLD]))
        if len(self.tried_at) == self._attempts:
            os.close(self._launcher)
        raise postgres_files.StartError("it ended at once")


def test_a_server_that_can_not_be_started_is_left_alone_for_ever_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, object]] = []
    monkeypatch.setattr(postgres_keeper, "RESTART_PAUSES_S", (0.0, 0.1, 0.2))
    monkeypatch.setattr(postgres_keeper, "answer", told.append)
    ours, launchers = os.pipe()
    wakeup, notify = socket.socketpair()
    with os.fdopen(ours, "rb") as stdin, wakeup, notify:
        monkeypatch.setattr(sys, "stdin", stdin)
        cluster = Unstartable(notify, launchers, attempts=4)
        postgres_keeper.stay(cluster, wakeup, restart=True)  # type: ignore[arg-type]
    pauses = [later - earlier for earlier, later in pairwise(cluster.tried_at)]
    assert [pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.2), strict=True)] == [True] * 3, pauses
    assert [each["error"] for each in told] == ["it ended at once"] * 4


def test_the_server_log_is_in_the_error(scratch: Path) -> None:
    broken = EmbeddedPostgres(settings={"shared_buffers": "lots"})
    with pytest.raises(PostgresStartError, match='invalid value for parameter "shared_buffers": "lots"'):
        broken.start()
    assert list(scratch.iterdir()) == []


def test_a_missing_installation_is_named(scratch: Path) -> None:
    with pytest.raises(PostgresStartError, match="has no initdb and no postgres"):
        EmbeddedPostgres(install_dir=scratch).start()


def test_using_it_before_start_is_an_error() -> None:
    with pytest.raises(EmbeddedPostgresError, match="not started"):
        EmbeddedPostgres().dsn()


def test_starting_twice_is_an_error() -> None:
    with EmbeddedPostgres(durable=False) as server, pytest.raises(EmbeddedPostgresError, match="already started"):
        server.start()


@as_root
def test_an_installation_that_only_root_may_enter_is_copied(scratch: Path) -> None:
    private = scratch / "private"
    private.mkdir(mode=0o700)
    installed = Path(EmbeddedPostgres().order()["install_dir"])
    package = private / "site-packages" / installed.parent.name
    shutil.copytree(installed, package / installed.name, ignore=shutil.ignore_patterns("include"))
    shutil.copytree(
        installed.parent.with_name(f"{installed.parent.name}.libs"), package.with_name(f"{package.name}.libs")
    )
    before = sorted(path.stat().st_mode for path in package.rglob("*"))
    with EmbeddedPostgres(durable=False, install_dir=package / installed.name) as server:
        with psycopg.connect(server.dsn()) as connection:
            connection.execute("CREATE EXTENSION vector")
        assert len(list(scratch.iterdir())) == 2
    assert [path.name for path in scratch.iterdir()] == ["private"]
    assert sorted(path.stat().st_mode for path in package.rglob("*")) == before


@as_root
def test_a_temporary_directory_that_only_root_may_enter_is_avoided(
    scratch: Path,
) -> None:
    scratch.chmod(0o700)
    with EmbeddedPostgres(durable=False) as server:
        assert alive(server.pid)
        assert list(scratch.iterdir()) == []


@as_root
def test_the_server_is_not_root(postgres_cluster: PostgresCluster) -> None:
    assert Path(f"/proc/{postgres_cluster.server.pid}").stat().st_uid != 0


@as_root
def test_a_data_directory_out_of_the_users_reach_is_explained(scratch: Path) -> None:
    scratch.chmod(0o700)
    with pytest.raises(PostgresStartError, match="choose another data directory"):
        EmbeddedPostgres(data_dir=scratch / "data").start()


@as_root
@pytest.mark.parametrize(("user", "message"), [("no-such-user", "no user"), ("root", "is root too")])
def test_a_user_that_will_not_do_is_named(user: str, message: str) -> None:
    with pytest.raises(PostgresStartError, match=message):
        EmbeddedPostgres(run_as=user).start()


LAUNCHER = textwrap.dedent("""
    import sys, threading, psycopg
    from services.local.postgres import EmbeddedPostgres
    server = EmbeddedPostgres(durable=False)
    thread = threading.Thread(target=server.start)   # the thread that starts it ends: the server must not
    thread.start()
    thread.join()
    psycopg.connect(server.dsn())
    print(server.pid, flush=True)
    sys.stdin.read()
""")


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_its_launcher(scratch: Path, kind: signal.Signals) -> None:
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        assert alive(pid)
        launcher.send_signal(kind)
    wait_until(lambda: not alive(pid), "the server ended")
    wait_until(lambda: not list(scratch.iterdir()), "its files are gone")


def test_stopping_leaves_no_zombie() -> None:
    before = children()
    server = EmbeddedPostgres(durable=False)
    server.start()
    server.stop()
    server.stop()
    assert children() <= before


def test_a_server_that_dies_by_itself_is_tidied_up(scratch: Path) -> None:
    with EmbeddedPostgres(durable=False) as server:
        pid = server.pid
        os.kill(pid, signal.SIGQUIT)
        wait_until(lambda: not list(scratch.iterdir()), "its files are gone")
        assert not alive(pid)


async def test_templates_are_prepared_once_and_cloned(template_database: TemplateDatabase) -> None:
    prepared: list[str] = []

    async def prepare(dsn: str) -> None:
        prepared.append(dsn)
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await connection.execute("CREATE TABLE t AS SELECT 1 AS n")

    first = await template_database("once", prepare)
    async with await psycopg.AsyncConnection.connect(first) as connection:
        await connection.execute("INSERT INTO t VALUES (2)")
    second = await template_database("once", prepare)
    async with await psycopg.AsyncConnection.connect(second) as connection:
        assert await (await connection.execute("SELECT n FROM t")).fetchall() == [(1,)]
    assert len(prepared) == 1


def test_each_test_has_an_empty_database(database: str, postgres_cluster: PostgresCluster) -> None:
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
    with psycopg.connect(postgres_cluster.dsn()) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("postgres",)
