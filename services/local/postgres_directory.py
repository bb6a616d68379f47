"""The directory of an embedded Postgres: claimed by one server at a time, filled once, usable again after any crash.

Standard library only, like the keeper.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from services.local.postgres_files import Account, StartError

PID_FILE = "postmaster.pid"
VERSION_FILE = "PG_VERSION"
# The graph database's directory, which lies in this one: one directory holds all that a platform keeps.
GRAPH_DIRECTORY = "graph"
# A server that goes on for so long once nobody needs it is one that somebody needs.
NOTICED_S = 5.0
POLL_S = 0.02


@dataclass(frozen=True)
class ServerWord:
    """What a server says of itself in its directory."""

    pid: int = 0
    ready: bool = False


class DataDirectory:
    """A Postgres data directory. `patience_s` is how long a server that shuts down in it is waited for.

    The claim is a lock on the directory, which the server and its processes inherit: it holds for as long as one of
    them lives, and ends with them, however they end. What a pid file says is not enough: after a restart of the machine
    or the container its number may be any other process's.
    """

    def __init__(self, path: Path, account: Account, *, patience_s: float) -> None:
        self.path = path
        self._account = account
        self._patience_s = patience_s
        self._descriptor = -1
        self._filling = path / "initialising"
        self._filled = path / "initialised"

    @property
    def claim_descriptor(self) -> int:
        """The descriptor that holds the claim, for the server to inherit."""
        return self._descriptor

    def claim(self) -> None:
        """Makes the directory, if there is none, and claims it. Raises StartError when it is in use or out of reach."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self._account.can_enter(self.path.parent):
            raise StartError(
                f"user {self._account.name!r}, who must run the server because we are root, can't enter "
                f"{self.path.parent}: choose another data directory"
            )
        self.path.mkdir(exist_ok=True, mode=0o700)
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._wait_for_lock()
        self.forget_dead_server()

    def fill(self, initialise: Callable[[Path], None]) -> bool:
        """Has a cluster made, unless there is one; returns whether `initialise` was called.

        It is made beside and then moved in, its version file last: what a crash leaves is begun anew or moved on.
        """
        empty = not (self.path / VERSION_FILE).exists()
        begin = empty and not self._filled.exists()
        if begin:
            self._begin(initialise)
        if empty:
            for entry in sorted(self._filled.iterdir(), key=lambda each: each.name == VERSION_FILE):
                entry.rename(self.path / entry.name)
        if self._filled.exists():
            self._filled.rmdir()
            os.fsync(self._descriptor)
        return begin

    def forget_dead_server(self) -> None:
        """Removes the pid file of a server that lives no more; raises StartError when it does live."""
        try:
            pid = self.server_word().pid
        except FileNotFoundError:
            return
        if not Path("/proc/self/cwd").exists():
            return  # the server itself looks whether there is a process of that number
        if self._works_here(pid):
            raise self._in_use()
        (self.path / PID_FILE).unlink(missing_ok=True)

    def server_word(self) -> ServerWord:
        """What the server's pid file says. Raises FileNotFoundError when there is none."""
        lines = (self.path / PID_FILE).read_text().splitlines()
        pid = int(lines[0]) if lines and lines[0].strip().isdigit() else 0
        return ServerWord(pid, len(lines) >= 8 and lines[7].strip() == "ready")

    def _begin(self, initialise: Callable[[Path], None]) -> None:
        if self._filling.exists():
            shutil.rmtree(self._filling)
        if any(entry.name != GRAPH_DIRECTORY for entry in self.path.iterdir()):
            raise StartError(f"{self.path} holds files, but no database: choose another data directory")
        self.path.chmod(0o700)
        self._account.own(self.path)
        self._filling.mkdir(mode=0o700)
        self._account.own(self._filling)
        initialise(self._filling)
        self._filling.rename(self._filled)

    def _wait_for_lock(self) -> None:
        now = time.monotonic()
        deadline, ready_until = now + self._patience_s, now + NOTICED_S
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                now = time.monotonic()
                if now > (ready_until if self._server_is_ready() else deadline):
                    raise self._in_use() from None
                time.sleep(POLL_S)
            except OSError as error:
                raise StartError(
                    f"can't lock {self.path} ({error.strerror}): choose a data directory on a local disk"
                ) from error
            else:
                return

    def _server_is_ready(self) -> bool:
        try:
            return self.server_word().ready
        except FileNotFoundError:
            return False

    def _works_here(self, pid: int) -> bool:
        """Whether a process has this as its working directory, as every server has its own."""
        try:
            return Path(f"/proc/{pid}/cwd").samefile(self.path)
        except OSError:  # no such process, or one of somebody else's
            return False

    def _in_use(self) -> StartError:
        try:
            who = f"process {self.server_word().pid}, says its {PID_FILE}"
        except FileNotFoundError:
            who = f"without a {PID_FILE}"
        return StartError(f"{self.path} is in use by a server ({who}): stop that one, or choose another directory")
