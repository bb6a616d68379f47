"""What a step changed: how channel values are packed into a checkpoint's row, and put together again from many.

A row holds, for each channel that changed, its new version and either the whole value or, for a list or map that only
grew since a version already stored, what was added to that version. A step therefore costs what it changed, however
long the history. Whose nodes never change an item in place, has items told apart by identity; nodes of graphs that were
brought do as they like, and items are told apart by marks of what they hold.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.base import SerializerProtocol

Versions = Mapping[str, Any]
# Shorter ones are cheaper to store whole than to put together.
SHORTEST_BASE = 4


@dataclass(frozen=True)
class Stored:
    """A channel value that is in the database, or what `marked` has made of it, and the version it has there."""

    version: Any
    value: Any


def marked(value: Any, mark: Callable[[Any], Any]) -> Any:
    """Returns a list or map with a mark in place of each item, to see later whether it has only grown; else None."""
    if type(value) is list and len(value) >= SHORTEST_BASE:
        return [mark(item) for item in value]
    if type(value) is dict and len(value) >= SHORTEST_BASE:
        return {key: mark(item) for key, item in value.items()}
    return None


def pack_changes(
    serde: SerializerProtocol,
    values: Mapping[str, Any],
    versions: Versions,
    stored: Mapping[str, Stored],
    marks: Mapping[str, Any] | None = None,
) -> bytes:
    """Packs the changed channels' values. A version without a value is an empty channel and takes no room.

    With `marks`, those of each value, what is stored is told by its marks, too.
    """
    whole: dict[str, Any] = {}
    grown: dict[str, tuple[Any, Any]] = {}
    for channel in versions:
        if channel not in values:
            continue
        base = stored.get(channel)
        added = growth(base.value, values[channel], marks[channel] if marks else None) if base else None
        if base is None or added is None:
            whole[channel] = values[channel]
        else:
            grown[channel] = (base.version, added)
    added_values = {channel: added for channel, (_, added) in grown.items()}
    packed = {
        "versions": {channel: version for channel, version in versions.items() if channel in values},
        "whole": _dump(serde, whole),
        "bases": {channel: base for channel, (base, _) in grown.items()},
        "added": _dump(serde, added_values) if added_values else None,
    }
    return ormsgpack.packb(packed)


def growth(before: Any, after: Any, marks: Any = None) -> Any | None:
    """Returns what was added at the end of a list or map, or None when it did not only grow.

    Every item is compared, without a step of the interpreter for each, as histories are long: by identity or, where
    there are `marks` of what is there now, with the marks of what was before.
    """
    now, same = (after, operator.is_) if marks is None else (marks, operator.eq)
    if type(before) is not type(now) or not isinstance(before, list | dict):
        return None
    if not SHORTEST_BASE <= len(before) <= len(now):
        return None
    if not all(map(same, before, now)):
        return None
    if isinstance(before, list):
        return after[len(before) :]
    if not all(map(same, before.values(), now.values())):
        return None
    return dict(itertools.islice(after.items(), len(before), None))


class History:
    """The rows of one thread and namespace, from which the values of any of its checkpoints can be put together."""

    def __init__(self, serde: SerializerProtocol, rows: Iterable[bytes]) -> None:
        self._serde = serde
        self._rows: list[dict[str, Any]] = []
        self._row_of: dict[tuple[str, Any], int] = {}
        self._whole: dict[int, dict[str, Any]] = {}
        self._added: dict[int, dict[str, Any]] = {}
        self._values: dict[tuple[str, Any], Any] = {}
        self.add(rows)

    def add(self, rows: Iterable[bytes]) -> None:
        """Adds rows that have been written since."""
        for row in rows:
            unpacked = ormsgpack.unpackb(row, option=ormsgpack.OPT_NON_STR_KEYS)
            self._row_of |= {(channel, version): len(self._rows) for channel, version in unpacked["versions"].items()}
            self._rows.append(unpacked)

    def forget_all_but(self, versions: Versions) -> None:
        """Keeps no values but those at these versions: others are put together again where they are asked for."""
        self._values = {place: value for place, value in self._values.items() if place in versions.items()}

    def values(self, versions: Versions) -> dict[str, Any]:
        """Returns the values of the channels at these versions; channels that are empty there are left out."""
        found = ((channel, version) for channel, version in versions.items() if (channel, version) in self._row_of)
        return {channel: self._value(channel, version) for channel, version in found}

    def _value(self, channel: str, version: Any) -> Any:
        chain: list[Any] = []
        while (channel, version) not in self._values:
            index = self._row_of[channel, version]
            bases = self._rows[index]["bases"]
            if channel not in bases:
                self._values[channel, version] = self._read(self._whole, "whole", index)[channel]
                break
            chain.append(version)
            version = bases[channel]
        value = self._values[channel, version]
        if not chain:
            return value
        grown = value.copy()
        for step in reversed(chain):
            added = self._read(self._added, "added", self._row_of[channel, step])[channel]
            grown.extend(added) if isinstance(grown, list) else grown.update(added)
        self._values[channel, chain[0]] = grown
        return grown

    def _read(self, cache: dict[int, dict[str, Any]], part: str, index: int) -> dict[str, Any]:
        if index not in cache:
            cache[index] = _load(self._serde, self._rows[index][part])
        return cache[index]


def pack_writes(serde: SerializerProtocol, writes: Iterable[tuple[str, Any]]) -> bytes:
    """Packs a task's writes."""
    return ormsgpack.packb(_dump(serde, [list(write) for write in writes]))


def unpack_writes(serde: SerializerProtocol, packed: bytes) -> list[tuple[str, Any]]:
    """Reverses `pack_writes`."""
    return [(channel, value) for channel, value in _load(serde, ormsgpack.unpackb(packed))]


def _dump(serde: SerializerProtocol, value: Any) -> list[Any]:
    kind, data = serde.dumps_typed(value)
    return [kind, data]


def _load(serde: SerializerProtocol, typed: list[Any]) -> Any:
    return serde.loads_typed((typed[0], typed[1]))
