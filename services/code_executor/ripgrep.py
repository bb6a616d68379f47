"""ripgrep over a snapshot: no configuration, no ignore files, no links, no preprocessors, no options from outside."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from services.code_executor.errors import ArgumentRefused, SourceFailed
from services.code_executor.git import end
from services.code_executor.limits import Limits
from services.code_executor.manifest import shown
from services.code_executor.snapshots import Snapshot

# `--text`: what is kept has lines, also after a NUL, where ripgrep by itself would stop and say nothing.
_ALWAYS = (
    "--no-config", "--no-follow", "--no-ignore", "--hidden", "--no-messages", "--no-pre", "--no-search-zip",
    "--no-require-git", "--no-pcre2", "--no-multiline", "--color=never", "--dfa-size-limit=32M",
    "--regex-size-limit=8M", "--text",
)  # fmt: skip
# With matches, and without.
_ENDED = (0, 1)
_READ_BYTES = 64 * 1024
_STDERR_BYTES = 8 * 1024


@dataclass(frozen=True)
class Hit:
    """A line that matches; column is 1-based, in bytes."""

    path: str
    line: int
    column: int


@dataclass(frozen=True)
class Query:
    """What to look for. path: a folder or file of the repository, as the commit spells it; "" for all of it."""

    pattern: str
    is_regex: bool = False
    ignore_case: bool = False
    whole_words: bool = False
    path: str = ""
    globs: tuple[str, ...] = ()


@dataclass
class Outcome:
    """Hits in order, and why there may be more, or empty."""

    hits: list[Hit]
    cut: str = ""


class Ripgrep:
    """Runs ripgrep, within bounds of time and output."""

    def __init__(self, program: Path, limits: Limits) -> None:
        self._program = program
        self._limits = limits

    async def hits(self, snapshot: Snapshot, query: Query, max_hits: int) -> Outcome:
        """Returns matching lines, sorted by path and line.

        Raises ArgumentRefused for a pattern that cannot be read, and SourceFailed when ripgrep broke off.
        """
        arguments = ["--json", "--sort=path", f"--max-count={max_hits + 1}"]
        outcome = Outcome([])
        try:
            async with asyncio.timeout(self._limits.search_timeout_s):
                async with aclosing(self._records(snapshot, query, arguments, outcome)) as records:
                    async for record in records:
                        message = orjson.loads(record)
                        if message["type"] != "match":
                            continue
                        if len(outcome.hits) >= max_hits:
                            outcome.cut = f"more than {max_hits} lines match"
                            break
                        outcome.hits.append(_hit(message["data"]))
        except TimeoutError:
            outcome.cut = f"the search was stopped after {self._limits.search_timeout_s:g} s"
        return outcome

    async def files(self, snapshot: Snapshot, query: Query) -> tuple[list[str], str]:
        """Returns the paths of files with a match, sorted, and why there may be more, or an empty string.

        Raises SourceFailed when ripgrep broke off.
        """
        outcome = Outcome([])
        paths = []
        try:
            async with asyncio.timeout(self._limits.search_timeout_s):
                async with aclosing(
                    self._records(snapshot, query, ["--files-with-matches", "--null"], outcome, separator=b"\0")
                ) as records:
                    paths = [_relative(record) async for record in records]
        except TimeoutError:
            outcome.cut = f"the search was stopped after {self._limits.search_timeout_s:g} s"
        return sorted(paths), outcome.cut

    async def _records(
        self, snapshot: Snapshot, query: Query, arguments: Sequence[str], outcome: Outcome, separator: bytes = b"\n"
    ) -> AsyncGenerator[bytes, None]:
        process = await asyncio.create_subprocess_exec(
            str(self._program),
            *_ALWAYS,
            *arguments,
            *_pattern_options(query),
            "--",
            _place(snapshot, query.path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            cwd=snapshot.root,
            start_new_session=True,
        )
        stdout, stderr = _pipes(process)
        try:
            rest, total = b"", 0
            while block := await stdout.read(_READ_BYTES):
                *records, rest = (rest + block).split(separator)
                for record in records:
                    yield record
                total += len(block)
                if total > self._limits.search_output_bytes:
                    outcome.cut = "the matching lines are too long to read them all"
                    return
            code = await process.wait()
            if code == 2:
                _refuse(query, (await stderr.read(_STDERR_BYTES)).decode(errors="replace"))
            elif code not in _ENDED:
                # What it did not say is not the same as that there is nothing.
                raise SourceFailed("search_failed", f"the search broke off (status {code}); try again", retryable=True)
        finally:
            end(process)
            await process.wait()


def _pipes(process: asyncio.subprocess.Process) -> tuple[asyncio.StreamReader, asyncio.StreamReader]:
    if process.stdout is None or process.stderr is None:
        raise AssertionError("the process was started without pipes")
    return process.stdout, process.stderr


def _pattern_options(query: Query) -> list[str]:
    options = ["--case-sensitive" if not query.ignore_case else "--ignore-case"]
    if not query.is_regex:
        options.append("--fixed-strings")
    if query.whole_words:
        options.append("--word-regexp")
    options += [f"--glob={glob}" for glob in query.globs]
    return [*options, f"--regexp={query.pattern}"]


def _place(snapshot: Snapshot, path: str) -> bytes:
    entry = snapshot.entries.get(path)
    if entry is not None:
        return b"./" + entry.raw
    # A folder's name is bytes too; any entry below it knows them.
    for inside in snapshot.entries.values() if path else ():
        if inside.path.startswith(path + "/"):
            return b"./" + b"/".join(inside.raw.split(b"/")[: path.count("/") + 1])
    return b"./"


def _relative(raw: bytes) -> str:
    return shown(raw.removeprefix(b"./"))


def _hit(data: dict[str, Any]) -> Hit:
    raw = base64.b64decode(data["path"]["bytes"]) if "bytes" in data["path"] else data["path"]["text"].encode()
    submatches = data["submatches"]
    return Hit(_relative(raw), data["line_number"] or 1, submatches[0]["start"] + 1 if submatches else 1)


def _refuse(query: Query, message: str) -> None:
    if not message:
        return  # some file could not be searched; the others were
    about = [line for line in message.splitlines() if line.strip()][-1].removeprefix("rg: ")
    if "glob" in message:
        raise ArgumentRefused("invalid_glob", f"the glob cannot be read: {about}")
    raise ArgumentRefused("invalid_pattern", f"{query.pattern!r} cannot be searched for: {about}")
