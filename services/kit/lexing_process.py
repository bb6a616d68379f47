"""The process in which texts are lexed: reads requests line by line, answers each, ends with its input.

It is run as a file, and imports nothing but the lexers: it holds no secret of the service that started it.
"""

from __future__ import annotations

import contextlib
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
# Regexes and their caches are warm from the second time on.
_TIMES = 6


class _TooMuch(BaseException):
    """No lexer catches it."""


def main() -> None:
    """Serves until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, _stop)
    # Not every system knows that limit.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    unit_s = min(_sample_s() for _ in range(_TIMES)) / len(_SAMPLE)
    for line in sys.stdin:
        sys.stdout.write(_answer(json.loads(line), unit_s) + "\n")
        sys.stdout.flush()


def _answer(request: dict[str, Any], unit_s: float) -> str:
    """Returns the tokens of a text and their kinds, and the work it was; no tokens when that is more than allowed."""
    module, _, name = request["lexer"].partition(":")
    make_lexer = getattr(importlib.import_module(module), name)
    start = time.process_time()
    kinds: dict[Any, int] = {}
    tokens: list[tuple[int, int, str]] | None = None
    try:
        with _at_most(request["work"] * unit_s):
            found = make_lexer().get_tokens_unprocessed(request["text"])
            tokens = [(at, kinds.setdefault(kind, len(kinds)), value) for at, kind, value in found]
    except (_TooMuch, MemoryError, RecursionError):
        tokens = None
    work = int((time.process_time() - start) / unit_s) + 1
    return json.dumps({"work": work, "kinds": list(map(str, kinds)), "tokens": tokens})


@contextlib.contextmanager
def _at_most(cpu_s: float) -> Iterator[None]:
    """Raises _TooMuch within a block that takes longer, also in the middle of a regex."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    stuck_s = int(used.ru_utime + used.ru_stime + cpu_s) + _STUCK_S
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (stuck_s, hard))
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _stop(_signal: int, _frame: object) -> None:
    raise _TooMuch


def _sample_s() -> float:
    start = time.process_time()
    list(PythonLexer().get_tokens_unprocessed(_SAMPLE))
    return time.process_time() - start


if __name__ == "__main__":
    main()
