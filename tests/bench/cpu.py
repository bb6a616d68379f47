"""CPU time of processes that are not ours to instrument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import psutil


class CpuMeter:
    """Sums user and system time of processes and all their descendants; those that ended count with their parents."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._roots = [psutil.Process(pid) for pid in pids]

    def total_s(self) -> float:
        """CPU seconds since each process began."""
        total = 0.0
        for root in self._roots:
            for process in [root, *root.children(recursive=True)]:
                try:
                    times = process.cpu_times()
                except psutil.NoSuchProcess:
                    continue
                total += times.user + times.system + times.children_user + times.children_system
        return total


class CpuMeters:
    """Several meters by name."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._meters = {name: CpuMeter([pid]) for name, pid in pids.items()}

    def total_s(self) -> dict[str, float]:
        """CPU seconds of each since it began."""
        return {name: meter.total_s() for name, meter in self._meters.items()}
