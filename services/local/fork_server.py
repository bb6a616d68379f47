"""A process that has imported what the services share, and forks them from there: most of a start was those imports.

    server = ForkServer(inherited_environment())
    child = await server.spawn(["-P", "-m", "services.guard"], env, log_descriptor)

The server has one thread, as whoever forks must, and has imported libraries alone: modules of ours register metrics,
and a service is to export its own. A child is as if it had been executed, in a session of its own, with its own
arguments, environment, directory and log. It ends with the server, which ends with its launcher.

The launcher sends an order with two descriptors: the child's log, and a pipe on which the launcher reads the child's
process id, and later its exit status. When the launcher closes that pipe, the child is killed.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from services.local.tether import TETHER, end_with, name_process

# What a service imports when it starts, of libraries; a test says what is missing here. Not those of the executor of
# MCP servers: few want it, and all others would wait for a fifth of these imports.
LIBRARIES: Final = (
    "aiohttp", "falkordb.asyncio.graph", "google.protobuf.field_mask_pb2", "google.protobuf.json_format",
    "google.rpc.code_pb2", "grpc_health.v1.health", "grpc_reflection.v1alpha.reflection", "grpc_status.rpc_status",
    "jsonschema", "jwt", "lark", "langchain.agents", "langchain_openai", "langgraph.checkpoint.postgres.aio",
    "langgraph.graph", "langgraph.store.memory", "neo4j", "openai.resources.chat.completions",
    "opentelemetry.exporter.otlp.proto.grpc._log_exporter",
    "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", "opentelemetry.propagate", "pgvector", "postgast",
    "prometheus_client", "protovalidate", "pydantic_settings", "re2", "starlette.applications",
    "starlette.middleware.cors", "structlog", "tree_sitter", "tree_sitter_c", "tree_sitter_cpp", "tree_sitter_go",
    "tree_sitter_java", "tree_sitter_javascript", "tree_sitter_json", "tree_sitter_python", "tree_sitter_toml",
    "tree_sitter_typescript", "uvicorn.lifespan.off", "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto", "uvloop", "yaml",
    "yoyo.backends.core.postgresql",
)  # fmt: skip
# The generated stubs, each of whose modules is imported.
STUBS: Final = "signalbox.v1"
# Ours, and libpq's, which asks for them when it connects. All else may have been read by what is imported already.
_READ_LATE: Final = ("SIGNALBOX_", "PG")
_MOST_BYTES: Final = 1 << 20
# gRPC's fork handlers crash the children of the code executor; none of the processes here uses gRPC before it forks.
_GRPC: Final = {"GRPC_ENABLE_FORK_SUPPORT": "0"}


class ForkFailed(Exception):
    """The server ended before it had forked a child."""


class ForkedProcess(asyncio.Protocol):
    """A child of the server, as its launcher has it: like a process of asyncio's."""

    def __init__(self) -> None:
        self.pid = 0
        self.returncode: int | None = None
        self.forked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._heard = b""

    def data_received(self, data: bytes) -> None:
        """Takes the process id, and the status that follows it."""
        *lines, self._heard = (self._heard + data).split(b"\n")
        for number in map(int, lines):
            if self.pid:
                self.returncode = number
            else:
                self.pid = number
                self.forked.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - how ever it was lost
        """Takes a child whose server is gone for killed, as it is."""
        if not self.forked.done():
            self.forked.set_exception(ForkFailed("the fork server ended"))
        if self.returncode is None:
            self.returncode = -signal.SIGKILL
        self._ended.set()

    def send_signal(self, number: int) -> None:
        """Sends a signal; nothing happens when the process has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends the process at once."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Waits for the process to end and returns its exit status."""
        await self._ended.wait()
        assert self.returncode is not None  # noqa: S101 - set before
        return self.returncode


class ForkServer:
    """The server as its launcher has it: started when it is first needed, or before, and again when it has died.

    `env` is the environment that its children have, their settings aside.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = dict(env)
        self._server: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts the server, which then imports; call it from the thread that lives longest, whose end it follows."""
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            arguments = ("-P", "-m", "services.local.fork_server", str(theirs.fileno()))
            self._server = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                [sys.executable, "-I", "-S", TETHER, str(os.getpid()), "--", sys.executable, *arguments],
                env=self._env | _GRPC,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._orders = ours

    def takes(self, arguments: Sequence[str], env: Mapping[str, str]) -> bool:
        """Whether a child would be what an interpreter with these arguments and this environment is.

        That is a module, and an environment of which only settings differ from the server's.
        """
        kept = {name: value for name, value in env.items() if not name.startswith(_READ_LATE)}
        return list(arguments[:2]) == ["-P", "-m"] and kept == self._env

    async def spawn(self, arguments: Sequence[str], env: Mapping[str, str], name: str, log: int) -> ForkedProcess:
        """Forks a child that runs a module and writes to a log. Raises ForkFailed, OSError."""
        if self._orders is None or self._server is None or self._server.poll() is not None:
            self.start()
        order = {"name": name, "arguments": arguments[2:], "env": dict(env), "directory": str(Path.cwd())}
        heard, told = os.pipe()
        try:
            assert self._orders is not None  # noqa: S101 - it was started
            socket.send_fds(self._orders, [json.dumps(order).encode()], [log, told])
        except BaseException:
            os.close(heard)
            raise
        finally:
            os.close(told)
        transport, child = await asyncio.get_running_loop().connect_read_pipe(ForkedProcess, os.fdopen(heard, "rb", 0))
        try:
            await child.forked
        except BaseException:
            transport.close()
            raise
        return child

    def close(self) -> None:
        """Ends the server, and with it what it has forked."""
        if self._orders is not None:
            self._orders.close()
        if self._server is not None:
            self._server.kill()
            self._server.wait()


def import_shared() -> None:
    """Imports the libraries and the stubs."""
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):  # of an extra that is not installed: then nobody asks for it
            importlib.import_module(library)
    for stub in pkgutil.iter_modules(importlib.import_module(STUBS).__path__, f"{STUBS}."):
        importlib.import_module(stub.name)


def main(orders: socket.socket) -> None:
    """Imports, forks until the launcher is gone, and in a child runs the module that was ordered."""
    import_shared()
    gc.collect()
    gc.freeze()  # no collection writes to pages that all children share
    if command := _Forking(orders).serve():
        become(*command)


def become(module: str, *arguments: str) -> NoReturn:
    """Runs a module as the program that this process is, and ends as an interpreter ends."""
    sys.argv[1:] = arguments
    status = _run(module)
    # What an interpreter does at its end, but for taking all modules apart: that would copy every shared page.
    threading._shutdown()  # type: ignore[attr-defined]  # as multiprocessing ends its children, too
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run(module: str) -> int:
    """Runs a module as the program, and returns the exit status that it has then."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        sys.stderr.write(f"{error.code}\n")
        return 1
    except BaseException:  # noqa: BLE001 - the end of a program, as an interpreter tells of it
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


class _Forking:
    """The server's own side."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        self._children: dict[int, int] = {}  # process ids, by the pipe to the launcher

    def serve(self) -> list[str] | None:
        """Forks until there is no launcher any more; in a child, returns what that is to run."""
        signal.set_wakeup_fd(self._wake.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            poll = select.poll()
            poll.register(self._orders, select.POLLIN)
            poll.register(self._woken, select.POLLIN)
            for pipe in self._children:
                poll.register(pipe, 0)  # which says when nobody reads it
            for descriptor, _ in poll.poll():
                if descriptor == self._woken.fileno():
                    self._reap()
                elif descriptor in self._children:
                    os.kill(self._children[descriptor], signal.SIGKILL)
                elif descriptor == self._orders.fileno():
                    message, descriptors, _, _ = socket.recv_fds(self._orders, _MOST_BYTES, 2)
                    if not message:
                        return None
                    if command := self._fork(json.loads(message), *descriptors):
                        return command

    def _fork(self, order: dict[str, Any], log: int, pipe: int) -> list[str] | None:
        server = os.getpid()
        child = os.fork()
        if child:
            os.close(log)
            self._children[pipe] = child
            self._tell(pipe, child)
            return None
        # The pipe stays open: its end is the end of child and server.
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for channel in (self._orders, self._woken, self._wake):
            channel.close()
        for other in self._children:
            os.close(other)
        os.setsid()
        end_with(server)
        name_process(order["name"])
        for descriptor in (sys.stdout.fileno(), sys.stderr.fileno()):
            os.dup2(log, descriptor)
        os.close(log)
        os.chdir(order["directory"])
        os.environ.clear()
        os.environ.update(order["env"])
        command: list[str] = order["arguments"]
        return command

    def _reap(self) -> None:
        self._woken.recv(4096)
        for pipe, child in list(self._children.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                self._tell(pipe, os.waitstatus_to_exitcode(status))
                os.close(pipe)
                del self._children[pipe]

    def _tell(self, pipe: int, number: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # its child is killed next
            os.write(pipe, f"{number}\n".encode())


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
