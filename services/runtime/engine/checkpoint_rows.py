"""Rows of checkpoints and of tasks' writes, as the saver's statements take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import ormsgpack
from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint


class WriteRow(NamedTuple):
    """A task's writes, or one special write of it."""

    task_id: str
    idx: int
    task_path: str
    writes: bytes


NO_WRITES: Mapping[str, None] = dict.fromkeys(WriteRow._fields)
# What a claimed run's first checkpoint adds to the row of its second.
INPUT_COLUMNS = {
    "checkpoint_id": "input_id",
    "body": "input_body",
    "changes": "input_changes",
    "metadata": "input_metadata",
}


def pack_body(checkpoint: Checkpoint) -> bytes:
    """Packs a checkpoint without its channels' values."""
    return ormsgpack.packb({key: value for key, value in checkpoint.items() if key != "channel_values"})


def size(row: Mapping[str, Any]) -> int:
    """Returns the bytes of a checkpoint's row."""
    return len(row["body"]) + len(row["changes"]) + len(row["metadata"])


def split(writes: Sequence[tuple[str, Any]]) -> list[tuple[int, list[tuple[str, Any]]]]:
    """Splits writes by row: the special ones each have a row of their own, the others share row 0.

    Of several special ones of a channel the last says what those before it said, too.
    """
    special = {WRITES_IDX_MAP[channel]: [(channel, value)] for channel, value in writes if channel in WRITES_IDX_MAP}
    plain = [(channel, value) for channel, value in writes if channel not in WRITES_IDX_MAP]
    return [*special.items(), *([(0, plain)] if plain else [])]


def write_columns(rows: list[WriteRow]) -> dict[str, list[Any]]:
    """Returns rows as a statement takes them: a list for each column."""
    return {
        "task_ids": [row.task_id for row in rows],
        "idxs": [row.idx for row in rows],
        "task_paths": [row.task_path for row in rows],
        "writes": [row.writes for row in rows],
    }
