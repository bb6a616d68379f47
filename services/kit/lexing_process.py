"""The process in which texts are lexed: reads requests line by line, answers each, ends with its input.

It is run as a file, and imports nothing but the lexers: it holds no secret of the service that started it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import resource
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from pygments.lexers.python import PythonLexer

_MEMORY_BYTES = 1 << 27
# For a step that takes no signal; the kernel ends the process then.
_STUCK_S = 10
_SAMPLE = 'def total(items, rate=1.5):\n    """Adds."""\n    return sum(rate * x["n"] for x in items)  # all\n' * 30
_TIMES = 3
# On a machine that is as busy as can be, and of the timer of some kernels.
_SLOWEST = 3
_TICK_S = 0.005


class _TooMuch(BaseException):
    """No lexer catches it."""


def main() -> None:
    """Serves until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Not every system knows that limit.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    # Tokens refer to nothing; looking through them again and again is a part of no text's work.
    gc.disable()
    _sample_s()
    work = _Work()
    for line in sys.stdin:
        sys.stdout.write(_answer(json.loads(line), work) + "\n")
        sys.stdout.flush()
        gc.collect()


class _Work:
    """Stops a block after so much work, also in the middle of a regex.

    A character of the sample takes longer while the machine is busy, so it is timed again before a block is stopped.
    """

    def __init__(self) -> None:
        self._unit_s = self._least_s = _timed_s()
        self._start = 0.0
        self._allowed = 0
        signal.signal(signal.SIGPROF, self._look)

    def done(self) -> int:
        """Returns how much work it was since the block began."""
        return int((time.process_time() - self._start) / self._unit_s) + 1

    @contextlib.contextmanager
    def at_most(self, allowed: int) -> Iterator[None]:
        """Raises _TooMuch within a block that is more work."""
        self._unit_s, self._allowed, self._start = self._least_s, allowed, time.process_time()
        slowest_s = allowed * self._least_s * _SLOWEST
        with contextlib.suppress(ValueError, OSError):
            stuck_s = int(self._start + slowest_s) + _STUCK_S
            resource.setrlimit(resource.RLIMIT_CPU, (stuck_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        signal.setitimer(signal.ITIMER_PROF, allowed * self._unit_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _look(self, _signal: int, _frame: object) -> None:
        spent_s = time.process_time() - self._start
        before_s = time.process_time()
        self._unit_s = min(max(self._unit_s, _timed_s()), self._least_s * _SLOWEST)
        left_s = self._allowed * self._unit_s - spent_s
        if left_s <= _TICK_S:
            raise _TooMuch
        self._start += time.process_time() - before_s
        signal.setitimer(signal.ITIMER_PROF, left_s)


def _answer(request: dict[str, Any], work: _Work) -> str:
    """Returns the tokens of a text and their kinds, and the work it was; no tokens when that is more than allowed."""
    module, _, name = request["lexer"].partition(":")
    make_lexer = getattr(importlib.import_module(module), name)
    kinds: dict[Any, int] = {}
    tokens: list[tuple[int, int, str]] | None = None
    try:
        with work.at_most(request["work"]):
            found = make_lexer().get_tokens_unprocessed(request["text"])
            tokens = [(at, kinds.setdefault(kind, len(kinds)), value) for at, kind, value in found]
    except (_TooMuch, MemoryError, RecursionError):
        tokens = None
    return json.dumps({"work": work.done(), "kinds": list(map(str, kinds)), "tokens": tokens})


def _timed_s() -> float:
    """Returns how long a character of ordinary Python takes now."""
    return min(_sample_s() for _ in range(_TIMES)) / len(_SAMPLE)


def _sample_s() -> float:
    start = time.process_time()
    list(PythonLexer().get_tokens_unprocessed(_SAMPLE))
    return time.process_time() - start


if __name__ == "__main__":
    main()
