"""What a figure was measured on, and whether anybody else used it meanwhile."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

# More than this of all cores, and figures in seconds say as much of the neighbours as of what was measured.
QUIET = 0.05


def machine() -> str:
    """Returns processor, cores and Python build, as they are named beside figures."""
    build = " ".join(platform.python_build())
    return (
        f"{_processor()}, {psutil.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()} "
        f"({build}, {platform.python_compiler()})"
    )


def _processor() -> str:
    names = Path("/proc/cpuinfo")
    lines = names.read_text().splitlines() if names.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


@dataclass(frozen=True)
class Use:
    """CPU seconds of the whole machine until a moment, and those that were there to be had."""

    busy_s: float
    all_s: float

    @classmethod
    def now(cls) -> Use:
        """What has been used since the machine began; what other machines on the same host took is no use of it."""
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        whole = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        return Use(whole - idle, whole)


def share_of_others(before: Use, after: Use, own_s: float) -> float:
    """Returns what share of all cores others had, where `own_s` of what was used was the measurement's own."""
    return max(0.0, after.busy_s - before.busy_s - own_s) / max(after.all_s - before.all_s, 1e-9)


def warning(shares: Sequence[float]) -> str:
    """Returns what is to be said of the neighbours; empty where there were hardly any."""
    worst = max(shares, default=0.0)
    if worst <= QUIET:
        return ""
    return f"others used up to {worst:.0%} of the machine meanwhile: trust the ratios, and not even those to 5 %"
