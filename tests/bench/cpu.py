"""CPU time of processes that are not ours to instrument."""

from __future__ import annotations

from collections.abc import Iterable

import psutil


class CpuMeter:
    """Sums user and system time of processes and their children, also of those that have ended since."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._roots = [psutil.Process(pid) for pid in pids]
        self._seen: dict[int, float] = {}

    def total_s(self) -> float:
        """CPU seconds since each process began."""
        for root in self._roots:
            for process in [root, *root.children(recursive=True)]:
                try:
                    times = process.cpu_times()
                except psutil.NoSuchProcess:
                    continue
                self._seen[process.pid] = times.user + times.system
        return sum(self._seen.values())
