"""`make bench`: every benchmark, one after another, or those named on the command line."""

from __future__ import annotations

import importlib
import sys

BENCHMARKS = (
    "platform",
    "hardened",
    "replicas",
    "saver",
    "thread",
    "findings",
    "recovery",
    "overload",
    "waiting",
    "streams",
    "first_token",
    "hosted",
    "decisions",
    "growth",
    "ledger",
    "migration",
)


def main() -> None:
    """Runs the benchmarks."""
    for name in sys.argv[1:] or BENCHMARKS:
        importlib.import_module(f"tests.bench.bench_{name}").main()


if __name__ == "__main__":
    main()
