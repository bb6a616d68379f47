"""The process that keeps one embedded Postgres: starts it, waits for it, and tidies up when its launcher is gone.

Started by `postgres.py`. One JSON order comes by stdin, one JSON answer goes to stdout; then it waits until stdin is at
its end (the launcher stopped or died), until SIGTERM, or until the server ends. With `restart` in the order, a server
that ends by itself is started again on the same port, and a further answer says so. Standard library only: it runs
under `python -I -S`, so that it starts in milliseconds, whatever the environment and the working directory hold.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from services.local.postgres_directory import DataDirectory
from services.local.postgres_files import (
    Account,
    StartError,
    account_for,
    usable_install,
    work_directory,
)

FAST_SHUTDOWN_S = 20.0
IMMEDIATE_SHUTDOWN_S = 10.0
# Before each attempt to start a server that ended by itself; from the first again once it ran for a while.
RESTART_PAUSES_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_S = 60.0
LOG_TAIL_LINES = 30
POLL_S = 0.01

_PR_SET_PDEATHSIG = 1
_ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_keeper(expected_parent: int) -> None:
    """In a child before exec: ask the kernel to end it when this process dies, however that happens."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # we ignore it, and exec would pass that on
    # SIGINT is Postgres's fast shutdown: clients are cut off, data is flushed
    if _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT)) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != expected_parent:
        os._exit(1)


class KeptCluster:
    """One data directory and the server on it."""

    def __init__(self, order: dict[str, Any], account: Account, work: Path) -> None:
        self._order = order
        self._account = account
        self._work = work
        self._bin = usable_install(Path(order["install_dir"]), account, work) / "bin"
        path = Path(order["data_dir"]) if order["data_dir"] else work / "data"
        self._data = DataDirectory(path, account, patience_s=FAST_SHUTDOWN_S + IMMEDIATE_SHUTDOWN_S)
        self._log = work / "server.log"
        self._server: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Makes the cluster, or sets the superuser's password anew when it is there already."""
        self._data.claim()
        if not self._data.fill(self._initialise):
            self._set_password()

    def start(self) -> int:
        """Starts the server; returns its process id."""
        settings = {
            **self._order["settings"],
            "listen_addresses": "127.0.0.1",
            "port": str(self._order["port"]),
            "unix_socket_directories": "",
            "logging_collector": "off",
        }
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(  # noqa: S603 - programs of the installation we were given
                [str(self._bin / "postgres"), "-D", str(self._data.path), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._as_server(),
            )
        deadline = time.monotonic() + float(self._order["start_timeout_s"])
        while not self._ready():
            if not self.running:
                self._raise_exit(self._server)
            if time.monotonic() > deadline:
                self.stop()
                raise StartError(
                    f"not ready after {self._order['start_timeout_s']:.0f} s; its log ends:\n{self._log_tail()}"
                )
            time.sleep(POLL_S)
        return self._server.pid

    def restart(self) -> int:
        """Starts the server again after it ended by itself; returns its process id."""
        self._data.forget_dead_server()
        return self.start()

    def stop(self) -> None:
        """Stops the server, first gently, and waits for it."""
        if self._server is None:
            return
        for kind, wait_s in ((signal.SIGINT, FAST_SHUTDOWN_S), (signal.SIGQUIT, IMMEDIATE_SHUTDOWN_S)):
            self._server.send_signal(kind)  # does nothing to one that has ended
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(wait_s)
                return
        self._server.kill()
        self._server.wait()

    @property
    def running(self) -> bool:
        """Whether the server is still alive."""
        return self._server is not None and self._server.poll() is None

    @property
    def status(self) -> int | None:
        """How the server ended, as `subprocess` says it; None while it runs."""
        return None if self._server is None else self._server.returncode

    def _initialise(self, data: Path) -> None:
        password_file = self._work / "password"
        password_file.touch(mode=0o600)
        self._account.own(password_file)
        password_file.write_text(self._order["password"])
        try:
            self._run(
                "initdb",
                f"--pgdata={data}",
                f"--username={self._order['superuser']}",
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale-provider=builtin",  # sorts the same on every machine
                "--locale=C.UTF-8",
                "--no-instructions",
                *([] if self._order["sync"] else ["--no-sync"]),
            )
        finally:
            password_file.unlink()

    def _set_password(self) -> None:
        # The password lives in memory only, so the last one is gone. Single-user mode needs none. Nothing in it needs
        # quoting: it is URL-safe base64.
        statement = f"ALTER ROLE {self._order['superuser']} PASSWORD '{self._order['password']}'\n"
        self._run("postgres", "--single", "-D", str(self._data.path), "postgres", stdin=statement)

    def _run(self, program: str, *arguments: str, stdin: str = "") -> None:
        done = subprocess.run(  # noqa: S603 - programs of the installation we were given
            [str(self._bin / program), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=self._order["start_timeout_s"],
            check=False,
            **self._as_server(),
        )
        if done.returncode != 0:
            raise StartError(f"{program} failed with exit code {done.returncode}:\n{tail(done.stdout + done.stderr)}")

    def _ready(self) -> bool:
        # the server's own word, in its own directory: a connection could reach another server on that port
        try:
            word = self._data.server_word()
        except FileNotFoundError:
            return False
        return self._server is not None and word.pid == self._server.pid and word.ready

    def _raise_exit(self, server: subprocess.Popen[bytes]) -> None:
        raise StartError(f"the server ended with exit code {server.returncode}; its log ends:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        return tail(self._log.read_text(errors="replace"))

    def _as_server(self) -> dict[str, Any]:
        keeper = os.getpid()
        options: dict[str, Any] = {
            "cwd": self._work,
            "env": _ENVIRONMENT,
            "umask": 0o077,
            "pass_fds": (self._data.claim_descriptor,),
            # after the change of user, which would clear it; safe here, as this process has one thread
            "preexec_fn": lambda: die_with_keeper(keeper),
        }
        if self._account.uid is not None:
            options |= {"user": self._account.uid, "group": self._account.gid, "extra_groups": []}
        return options


def tail(text: str) -> str:
    """Returns the last lines of a log."""
    return "\n".join(text.strip().splitlines()[-LOG_TAIL_LINES:]) or "(nothing)"


def stay(cluster: KeptCluster, wakeup: socket.socket, *, restart: bool) -> None:
    """Returns when the launcher is gone, SIGTERM came, or the server ended by itself and is not to be started again."""
    pauses = _pauses()
    while True:
        since = time.monotonic()
        while cluster.running:
            if _told_to_stop(wakeup, None):
                return
        if not restart:
            return
        if time.monotonic() - since > STEADY_S:
            pauses = _pauses()
        if _told_to_stop_within(wakeup, next(pauses)):
            return
        ended = cluster.status
        try:
            answer({"ended": ended, "pid": cluster.restart()})
        except (StartError, OSError) as error:
            answer({"ended": ended, "error": str(error)})


def _pauses() -> Iterator[float]:
    return chain(RESTART_PAUSES_S, repeat(RESTART_PAUSES_S[-1]))


def _told_to_stop_within(wakeup: socket.socket, pause_s: float) -> bool:
    """Pauses, also where the end of the last attempt is still to be signalled; says whether we are told to stop."""
    deadline = time.monotonic() + pause_s
    while not _told_to_stop(wakeup, max(deadline - time.monotonic(), 0)):
        if time.monotonic() >= deadline:
            return False
    return True


def _told_to_stop(wakeup: socket.socket, within_s: float | None) -> bool:
    """Waits for a word of the launcher or a signal, whichever it is; says whether it tells us to stop."""
    ready, _, _ = select.select([sys.stdin.fileno(), wakeup], [], [], within_s)
    return sys.stdin.fileno() in ready or (wakeup in ready and signal.SIGTERM in wakeup.recv(64))


def answer(report: dict[str, Any]) -> None:
    """Tells the launcher how the start went."""
    with contextlib.suppress(BrokenPipeError):  # it is gone: stdin says so next
        os.write(sys.stdout.fileno(), json.dumps(report).encode() + b"\n")


def keep() -> None:
    """Carries out the order that comes by stdin."""
    wakeup, notify = socket.socketpair()
    notify.setblocking(False)
    signal.set_wakeup_fd(notify.fileno())
    for kind in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(kind, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = json.loads(sys.stdin.buffer.readline())  # nothing follows it, so the buffer holds nothing back
    try:
        account = account_for(order["run_as"])
        with work_directory(account) as work:
            cluster = KeptCluster(order, account, work)
            try:
                cluster.prepare()
                answer({"pid": cluster.start()})
                stay(cluster, wakeup, restart=order["restart"])
            finally:
                cluster.stop()
    except (StartError, OSError, subprocess.TimeoutExpired) as error:
        answer({"error": str(error)})
