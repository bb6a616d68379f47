"""Whether cited lines have to do with the flagged ones.

Connected are: the flagged location and what the scanner names with it (trace, related locations), the definition
around each of these, module-level lines of those files that share a name with them, and, a few calls away, what
these definitions use or what uses them, as far as it has been read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from services.evaluator.bank import CodeBank, SourceFile, normal_path
from services.evaluator.blocks import Block, blocks_of

# From the flagged definition to its caller's caller, or into what it calls: further off, anything meets anything.
MAX_CALLS_AWAY = 3

# A name, with its type and modifiers before or behind it, that is set.
_ASSIGNMENT = re.compile(r"(?:[\w<>\[\],:*&]+\s+){0,6}?([^\W\d][\w$]*)\s*(?::[^=]{1,80})?[-+*/|&%]?=(?!=)")


@dataclass(frozen=True)
class Span:
    """Lines of a file."""

    file: str
    first_line: int
    last_line: int

    def meets(self, other: Span) -> bool:
        """Whether the two share a line."""
        same = normal_path(self.file) == normal_path(other.file)
        return same and self.first_line <= other.last_line and other.first_line <= self.last_line


@dataclass(frozen=True)
class _Given:
    """Names that lines set, and every name on those lines."""

    assigned: frozenset[str]
    used: frozenset[str]


class Connections:
    """What is connected to the flagged location and the scanner's own places."""

    def __init__(self, bank: CodeBank, anchors: Sequence[Span]) -> None:
        self._bank = bank
        self._anchors = anchors
        self._by_file: dict[str, list[Block]] = {}
        self._given_by: dict[Span, _Given] = {}

    def reach(self, span: Span) -> bool:
        """Whether a span is connected."""
        if any(span.meets(anchor) for anchor in self._anchors):
            return True
        block = self._around(span)
        # Cheap answers first: what is connected at all takes reading everything that was read.
        if (block is not None and block in self._starts) or self._named_by_anchors(span):
            return True
        if block is not None and block in self._connected:
            return True
        names = self._names(span)
        # Lines of a module, or of a class around a connected method, count when they share a name with it.
        loose = block is None or any(_encloses(block, connected) for connected in self._connected)
        return loose and any(names & connected.uses for connected in self._connected)

    def _named_by_anchors(self, span: Span) -> bool:
        """Whether the span defines a name that the anchors' own lines use, or the other way round, in one file."""
        names = self._names(span)
        for anchor in self._anchors:
            near = normal_path(anchor.file) == normal_path(span.file)
            if not near or self._around(anchor) is not None:
                continue
            if names & self._names(anchor) or self._assigned(span) & self._given(anchor).assigned:
                return True
        return False

    @cached_property
    def _blocks(self) -> list[Block]:
        return [block for file in self._bank.files for block in self._blocks_in(file)]

    def _blocks_in(self, file: SourceFile) -> list[Block]:
        if file.path not in self._by_file:
            self._by_file[file.path] = blocks_of(file)
        return self._by_file[file.path]

    @cached_property
    def _starts(self) -> frozenset[Block]:
        """The definitions around the anchors."""
        return frozenset(block for anchor in self._anchors if (block := self._around(anchor)) is not None)

    @cached_property
    def _connected(self) -> frozenset[Block]:
        loose = frozenset[str]().union(*(self._names(anchor) | self._given(anchor).used for anchor in self._anchors))
        found = self._starts | {block for block in self._blocks if block.name in loose}
        newest = found
        for _ in range(MAX_CALLS_AWAY):
            named = {block.name for block in newest}
            used = frozenset[str]().union(*(block.uses for block in newest))
            met = {block for block in self._blocks if block.name in used or named & block.uses} - found
            # What encloses a caller is no caller itself: else all methods of a class would be connected.
            near = _by_file(met | found)
            newest = frozenset(block for block in met if not any(_encloses(block, it) for it in near[block.file]))
            if not newest:
                break
            found = found | newest
        return found

    def _given(self, anchor: Span) -> _Given:
        """Returns what the module's lines set that an anchor outside any definition uses, a few names away."""
        if anchor not in self._given_by:
            self._given_by[anchor] = self._find_given(anchor)
        return self._given_by[anchor]

    def _find_given(self, anchor: Span) -> _Given:
        file = self._bank.file(anchor.file)
        names = set[str]()
        wanted = {*self._names(anchor)}
        if file is None or self._around(anchor) is not None:
            return _Given(frozenset(), frozenset())
        lines = [
            (assigned[1], line.names)
            for number, line in file.lines.items()
            if (assigned := _ASSIGNMENT.match(line.structure)) and not self._around(Span(file.path, number, number))
        ]
        for _ in range(MAX_CALLS_AWAY):
            names = {name for assigned, used in lines if assigned in wanted for name in used}
            if names <= wanted:
                break
            wanted |= names
        return _Given(frozenset(assigned for assigned, _ in lines if assigned in wanted), frozenset(names))

    def _around(self, span: Span) -> Block | None:
        """Returns the smallest definition that holds the span's first line."""
        file = self._bank.file(span.file)
        blocks = self._blocks_in(file) if file else []
        holding = [block for block in blocks if block.holds(span.first_line, span.first_line)]
        return min(holding, key=lambda block: block.last_line - block.first_line, default=None)

    def _assigned(self, span: Span) -> frozenset[str]:
        """Returns the names that lines of a module set."""
        file = self._bank.file(span.file)
        if file is None or self._around(span) is not None:
            return frozenset()
        lines = (file.lines.get(number) for number in range(span.first_line, min(span.last_line, file.total_lines) + 1))
        matches = (_ASSIGNMENT.match(line.structure) for line in lines if line is not None)
        return frozenset(match[1] for match in matches if match)

    def _names(self, span: Span) -> frozenset[str]:
        file = self._bank.file(span.file)
        if file is None:
            return frozenset()
        wanted = range(span.first_line, min(span.last_line, file.total_lines) + 1)
        names = frozenset[str]().union(*(file.lines[number].names for number in wanted if number in file.lines))
        return frozenset(name for name in names if len(name) > 1)


def _by_file(blocks: Iterable[Block]) -> dict[str, list[Block]]:
    found: dict[str, list[Block]] = {}
    for block in blocks:
        found.setdefault(block.file, []).append(block)
    return found


def _encloses(outer: Block, inner: Block) -> bool:
    return outer != inner and outer.file == inner.file and outer.holds(inner.first_line, inner.last_line)
