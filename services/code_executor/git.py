"""Real git, with everything off that a repository could use to run, fetch or change something.

No configuration but ours is read: the system's is off, and the global one is a file in the cache. Every call says which
transports it may use. Names never come as options: object ids are checked by pattern and given on standard input or
behind `--end-of-options`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.code_executor.errors import CacheBusy
from services.kit.git import CONFIG, git_command, git_config, git_environment

COMMIT = re.compile(r"[0-9a-f]{40}")
# git prints what went wrong last.
_STDERR_BYTES = 64 * 1024


@dataclass(frozen=True)
class GitOptions:
    """What an operator may say about git: credentials file, trusted certificates and proxy."""

    credentials: Path | None = None
    ca: Path | None = None
    proxy: str = ""


@dataclass(frozen=True)
class GitOutcome:
    """How a git process ended."""

    code: int
    stdout: bytes
    stderr: str


class Git:
    """Runs git with a hardened environment. `home` is a folder of its own, which nobody else writes to."""

    def __init__(self, program: Path, home: Path, options: GitOptions | None = None) -> None:
        self._program = program
        self._home = home
        self._options = options or GitOptions()

    @property
    def empty_repository(self) -> Path:
        """A bare repository without objects, from which others' objects are read."""
        return self._home / "empty.git"

    async def prepare(self) -> None:
        """Writes the configuration and makes the empty repository."""
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = self._home / f"gitconfig.{os.getpid()}"
        partial.write_text(self._config())
        partial.replace(git_config(self._home))
        if not (self.empty_repository / "HEAD").exists():
            await self.make_repository(self.empty_repository)

    async def make_repository(self, path: Path) -> None:
        """Makes an empty bare repository; no template, so no hooks."""
        outcome = await self.run(["init", "--quiet", "--bare", "--template=", "--", str(path)], timeout_s=30)
        if outcome.code:
            raise CacheBusy("git could not make a repository in the cache; try again later")

    def environment(self, *, transport: str = "none", objects: Path | None = None) -> dict[str, str]:
        """Returns the whole environment of a git process.

        transport: the one protocol it may speak, or "none". objects: another repository's object folder to read from.
        """
        return git_environment(self._program, self._home, transport=transport, objects=objects)

    def command(self, git_dir: Path | None, arguments: Sequence[str]) -> list[str]:
        """Returns the argument vector of a git process."""
        return git_command(self._program, git_dir, arguments)

    async def run(
        self,
        arguments: Sequence[str],
        *,
        git_dir: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float,
    ) -> GitOutcome:
        """Runs git to its end, and kills it when time is up or the caller goes away. Raises TimeoutError."""
        # From a file: uvloop raises RuntimeError when it writes to a pipe whose process has ended by then.
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            process = await asyncio.create_subprocess_exec(
                *self.command(git_dir, arguments),
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment or self.environment()),
                cwd=str(self._home),
                start_new_session=True,
            )
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate(), timeout_s)
        finally:
            end(process)
        return GitOutcome(process.returncode or 0, stdout, stderr[-_STDERR_BYTES:].decode(errors="replace"))

    def _config(self) -> str:
        parts = [CONFIG]
        if self._options.credentials:
            helper = "store --file=" + shlex.quote(str(self._options.credentials))
            parts.append(f"[credential]\n\thelper = {_config_value(helper)}\n")
        if self._options.ca:
            parts.append(f"[http]\n\tsslCAInfo = {_config_value(str(self._options.ca))}\n")
        if self._options.proxy:
            parts.append(f"[http]\n\tproxy = {_config_value(self._options.proxy)}\n")
        return "".join(parts)


def end(process: asyncio.subprocess.Process) -> None:
    """Kills a process and all it started, when it still runs."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            return


def _config_value(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
