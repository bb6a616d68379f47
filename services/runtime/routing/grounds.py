"""Grounds: which facts and limits a predicate read, so that a decision can be explained with its numbers."""

from __future__ import annotations

from typing import Any, TypeVar, cast

RecordT = TypeVar("RecordT")


class Witness:
    """Notes what a predicate reads of the records it is given."""

    def __init__(self) -> None:
        self.read: dict[str, Any] = {}

    def watch(self, record: RecordT) -> RecordT:
        """Returns a stand-in for the record that notes every field read."""
        return cast(RecordT, _Watched(record, self.read))


class _Watched:
    __slots__ = ("_read", "_record")

    def __init__(self, record: object, read: dict[str, Any]) -> None:
        self._record = record
        self._read = read

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._record, name)
        self._read[name] = value
        return value
