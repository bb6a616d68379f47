"""`fetch_code` by symbol on a repository of 10,000 files: the first call on a commit, the first for a symbol, repeated.

Beside them, in the same run, what one would do without the service: `git grep` for the name at that commit.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from rich.console import Console
from rich.table import Table
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from services.code_executor.server import build
from services.code_executor.settings import CodeExecutorSettings
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.keys import generate_keypair
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.telemetry.logs import configure_logs
from services.kit.telemetry.names import AUDIENCE_CODE_EXECUTOR
from services.kit.wire.server import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FILES = 10_000
SYMBOLS = 25
TIMEOUT_S = 120
_GIT_ENVIRONMENT = {"PATH": os.defpath, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}

Call = Callable[[int], Awaitable[None]]


def make_repository(path: Path) -> str:
    """Makes a repository of FILES Python files, about 2 kB each, in one pack; returns its commit."""
    _git(path, "init", "--quiet", "--initial-branch=main", ".")
    _git(path, "fast-import", "--quiet", stdin=b"".join(_stream()))
    return _git(path, "rev-parse", "main").decode().strip()


def _stream() -> Iterator[bytes]:
    yield b"commit refs/heads/main\ncommitter Bench <bench@example.com> 1704067200 +0000\ndata 0\n"
    for number in range(FILES):
        content = _module(number).encode()
        yield f"M 100644 inline package{number % 100:02}/module_{number}.py\ndata {len(content)}\n".encode()
        yield content + b"\n"


def _module(number: int) -> str:
    functions = [
        f"def function_{number}_{part}(value):\n"
        f'    """Step {part} of module {number}."""\n'
        f"    total = value * {part} + function_{(number + 1) % FILES}_{part}(value)\n"
        "    for index in range(10):\n        total += index\n    return total\n"
        for part in range(10)
    ]
    return "\n\n".join(functions)


def _git(path: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(
        ["git", *arguments],
        cwd=path,
        env=_GIT_ENVIRONMENT,
        input=stdin,
        check=True,
        capture_output=True,
        timeout=TIMEOUT_S,
    ).stdout


@asynccontextmanager
async def executor(root: Path, address: str, commit: str) -> AsyncIterator[Call]:
    """Yields a call of `fetch_code` for the n-th symbol, through gRPC."""
    keys = generate_keypair()
    (root / "run.pem").write_text(keys.public_pem)
    settings = CodeExecutorSettings(
        run_token_public_key_file=root / "run.pem",
        code_local_roots=(root,),
        code_cache_dir=root / "cache",
        log_level="ERROR",
    )
    claims = RunClaims(Caller("bench"), "run", "sast_triage", frozenset({"fetch_code"}), 1)
    metadata = (bearer_metadata(RunTokenMinter(keys.private_pem).mint(claims, AUDIENCE_CODE_EXECUTOR)),)
    key = tools_pb2.IdempotencyKey(run_id="run", checkpoint_id="checkpoint", tool_call_id="call")
    async with (
        running("code_executor", settings, build) as served,
        grpc.aio.insecure_channel(served.address) as channel,
    ):
        stub: Any = tools_pb2_grpc.ToolExecutorServiceStub(channel)

        async def call(number: int) -> None:
            request = tools_pb2.CallToolRequest(tool="fetch_code", idempotency_key=key, epoch=1)
            request.arguments.update({"source": {"repository": address, "commit": commit}, "symbol": symbol(number)})
            response = await stub.CallTool(request, metadata=metadata, timeout=TIMEOUT_S)
            if len(response.output.data["fragments"]) != 1:
                raise RuntimeError(f"{symbol(number)} was not found: {response.error.message}")

        yield call


def symbol(number: int) -> str:
    """Names a function somewhere in the repository."""
    return f"function_{number * 397 % FILES}_{number % 10}"


async def _timed(call: Call, number: int) -> float:
    started = time.perf_counter()
    await call(number)
    return (time.perf_counter() - started) * 1000


async def measure(root: Path) -> list[tuple[str, float]]:
    """Returns what was measured: a name and milliseconds, the median where there are several."""
    repository = root / "repository"
    repository.mkdir()
    commit = await asyncio.to_thread(make_repository, repository)

    async def git_grep(number: int) -> None:
        await asyncio.to_thread(_git, repository, "grep", "-l", "-w", "-F", "-e", symbol(number), commit)

    async with executor(root, str(repository), commit) as fetch_code:
        rows = [("first call on the commit (snapshot included)", await _timed(fetch_code, 0))]
        first, again, grep = [], [], []
        for number in range(1, SYMBOLS + 1):
            first.append(await _timed(fetch_code, number))
            grep.append(await _timed(git_grep, number))
            again.append(await _timed(fetch_code, number))
    rows.append(("git grep at the commit, files only", statistics.median(grep)))
    rows.append(("first call for a symbol", statistics.median(first)))
    rows.append(("repeated call", statistics.median(again)))
    return rows


def main() -> None:
    """Measures and prints a table."""
    configure_logs("bench", "ERROR")
    with tempfile.TemporaryDirectory(prefix="signalbox-bench-") as folder:
        rows = asyncio.run(measure(Path(folder)))
    repeated = rows[-1][1]
    table = Table(title=f"fetch_code by symbol, {FILES:,} files")
    for column in ("", "ms", "times repeated"):
        table.add_column(column, justify="left" if not column else "right")
    for name, milliseconds in rows:
        table.add_row(name, f"{milliseconds:.1f}", f"{milliseconds / repeated:.1f}")
    Console(file=sys.stdout, width=100).print(table)


if __name__ == "__main__":
    main()
