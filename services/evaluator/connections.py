"""Whether cited lines have to do with the flagged ones.

Connected are: the flagged location and what the scanner names with it (trace, related locations), the definition
around each of these, module-level lines of those files that share a name with them, and, a few calls away, what
these definitions use or what uses them, as far as it has been read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from services.evaluator.bank import CodeBank, SourceFile, normal_path
from services.evaluator.blocks import Block, blocks_of

# From the flagged definition to its caller's caller, or into what it calls: further off, anything meets anything.
MAX_CALLS_AWAY = 3


@dataclass(frozen=True, order=True)
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
        self._around_by: dict[str, dict[int, Block]] = {}
        self._set_by: dict[str, list[tuple[str, frozenset[str]]]] = {}
        self._given_by: dict[Span, _Given] = {}
        self._names_by: dict[Span, frozenset[str]] = {}

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
        return loose and not names.isdisjoint(self._used)

    def callers(self) -> list[Span]:
        """Returns the definitions that were read and use the one around the flagged lines, by its name."""
        flagged = self._around(self._anchors[0])
        if flagged is None:
            return []
        using = {block for block in self._blocks if flagged.name in block.uses and block != flagged}
        callers = {block for block in using if not _encloses(block, flagged)} - _enclosing(using)
        return sorted(Span(block.file, block.first_line, block.last_line) for block in callers)

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
            met = frozenset(block for block in self._blocks if block.name in used or named & block.uses) - found
            # What encloses a caller is no caller itself: else all methods of a class would be connected.
            newest = met - _enclosing(met | found)
            if not newest:
                break
            found = found | newest
        return found

    @cached_property
    def _used(self) -> frozenset[str]:
        return frozenset[str]().union(*(connected.uses for connected in self._connected))

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
        lines = self._set_in(file)
        for _ in range(MAX_CALLS_AWAY):
            names = {name for assigned, used in lines if assigned in wanted for name in used}
            if names <= wanted:
                break
            wanted |= names
        return _Given(frozenset(assigned for assigned, _ in lines if assigned in wanted), frozenset(names))

    def _set_in(self, file: SourceFile) -> list[tuple[str, frozenset[str]]]:
        """Returns the names that a module's lines set, each with all names of its line."""
        if file.path not in self._set_by:
            around = self._around_in(file)
            self._set_by[file.path] = [
                (assigned, line.names)
                for number, line in file.lines.items()
                if number not in around
                for assigned in line.sets
            ]
        return self._set_by[file.path]

    def _around(self, span: Span) -> Block | None:
        """Returns the smallest definition that holds the span's first line."""
        file = self._bank.file(span.file)
        return self._around_in(file).get(span.first_line) if file else None

    def _around_in(self, file: SourceFile) -> dict[int, Block]:
        if file.path not in self._around_by:
            # Of those of one size the first counts.
            blocks = sorted(self._blocks_in(file), key=lambda it: (it.first_line - it.last_line, -it.first_line))
            lines = {number: block for block in blocks for number in range(block.first_line, block.last_line + 1)}
            self._around_by[file.path] = lines
        return self._around_by[file.path]

    def _assigned(self, span: Span) -> frozenset[str]:
        """Returns the names that lines of a module set."""
        file = self._bank.file(span.file)
        if file is None or self._around(span) is not None:
            return frozenset()
        lines = (file.lines.get(number) for number in range(span.first_line, min(span.last_line, file.total_lines) + 1))
        return frozenset[str]().union(*(line.sets for line in lines if line is not None))

    def _names(self, span: Span) -> frozenset[str]:
        if span not in self._names_by:
            self._names_by[span] = self._find_names(span)
        return self._names_by[span]

    def _find_names(self, span: Span) -> frozenset[str]:
        file = self._bank.file(span.file)
        if file is None:
            return frozenset()
        wanted = range(span.first_line, min(span.last_line, file.total_lines) + 1)
        names = frozenset[str]().union(*(file.lines[number].names for number in wanted if number in file.lines))
        return frozenset(name for name in names if len(name) > 1)


def _enclosing(blocks: Iterable[Block]) -> frozenset[Block]:
    """Returns those that hold all lines of another; no two of a file start with the same line."""
    found = set()
    # Of each file, the nearest end of those that start further on.
    nearest: dict[str, int] = {}
    for block in sorted(blocks, key=lambda block: -block.first_line):
        if nearest.get(block.file, block.last_line + 1) <= block.last_line:
            found.add(block)
        nearest[block.file] = min(nearest.get(block.file, block.last_line), block.last_line)
    return frozenset(found)


def _encloses(outer: Block, inner: Block) -> bool:
    return outer != inner and outer.file == inner.file and outer.holds(inner.first_line, inner.last_line)
