"""The ready file: how a service says where it listens, once it does."""

from __future__ import annotations

import os
from pathlib import Path

import orjson


def write_ready_file(path: Path, *, listen: str, metrics: str) -> None:
    """Writes `{"listen": …, "metrics": …, "pid": …}` to path in one step, so that no reader sees half of it."""
    partial = path.with_suffix(".partial")
    partial.write_bytes(orjson.dumps({"listen": listen, "metrics": metrics, "pid": os.getpid()}))
    partial.replace(path)
