"""Processes in which texts are lexed, and stopped when that takes too long.

Work is counted in characters of ordinary Python, as a process lexes them on the same machine: the same text is too much
on a slow machine and on a fast one.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pygments.lexer import Lexer
from pygments.token import _TokenType, string_to_tokentype

from services.kit.lexing import Token
from services.kit.telemetry.logs import get_logger

# Ordinary texts of any language are about the work that Python of their size is;
# what has a token for each character is twice that, and a busy machine measures neither well.
WORK_PER_CHARACTER: Final = 3
# The first text in a language is also the compiling of its regexes.
LEAST_WORK: Final = 30_000
_PROGRAM: Final = Path(__file__).with_name("lexing_process.py")
log = get_logger()


class LexingProcesses:
    """A few processes, started when they are first needed; callers wait when all are busy."""

    def __init__(self, most: int = 2) -> None:
        self._free = threading.Semaphore(most)
        self._idle: list[_Process] = []
        atexit.register(self.close)

    def lex(self, lexer: type[Lexer], text: str, work: int) -> tuple[list[Token] | None, int]:
        """Returns a text's tokens, or None when they are more work than this, or than befits its size; and the work."""
        work = min(work, LEAST_WORK + WORK_PER_CHARACTER * len(text))
        name = f"{lexer.__module__}:{lexer.__name__}"
        answer = self._ask({"lexer": name, "text": text, "work": work})
        if answer is None or answer["tokens"] is None:
            log.warning("text not lexed", lexer=name, characters=len(text), work=work)
            # What ended its process was all the work that was allowed.
            return None, work
        kinds = list(map(_kind, answer["kinds"]))
        return [(start, kinds[kind], value) for start, kind, value in answer["tokens"]], answer["work"]

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        with self._free:
            process = self._take()
            answer = None
            try:
                answer = process.ask(request)
            finally:
                if answer is None:
                    process.close()
                else:
                    self._idle.append(process)
            return answer

    def _take(self) -> _Process:
        while True:
            try:
                process = self._idle.pop()
            except IndexError:  # not looked at before: another thread may take the last one meanwhile
                return _Process()
            if process.is_running:
                return process
            process.close()

    def close(self) -> None:
        """Ends those that wait for work."""
        atexit.unregister(self.close)
        while self._idle:
            self._idle.pop().close()


class _Process:
    """A process that lexes one text at a time."""

    def __init__(self) -> None:
        self._running = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
        )

    @property
    def is_running(self) -> bool:
        """Whether it has not ended, as it does when the machine is short of memory."""
        return self._running.poll() is None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the answer to a request, or None when the process is gone."""
        asked, answers = self._running.stdin, self._running.stdout
        assert asked, answers  # noqa: S101 - they are pipes
        try:
            asked.write(json.dumps(request).encode() + b"\n")
            asked.flush()
        except BrokenPipeError:
            return None
        line = answers.readline() if answers else b""
        answer: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
        return answer

    def close(self) -> None:
        """Ends the process."""
        self._running.kill()
        with contextlib.suppress(BrokenPipeError):
            self._running.communicate()


def _kind(name: str) -> _TokenType:
    return string_to_tokentype(name.removeprefix("Token").removeprefix("."))
