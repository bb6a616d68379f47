"""Lines that never run: behind a condition that is false as it stands, or after what leaves their block.

Found by indentation and braces, because pieces of files rarely parse. What is only dead by what a name holds is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from services.evaluator.code_lines import CodeLine
from services.evaluator.languages import Family

_NEVER = r"(?:False|None|0|0\.0|''|\"\"|\[\]|\(\)|\{\}|not\s+True|TYPE_CHECKING|typing\.TYPE_CHECKING)"
_FALSE_HEAD = re.compile(rf"(?:el)?(?:if|while)\s*+\(?\s*+{_NEVER}\s*+\)?\s*+(?:and\b.*)?:")
_TRUE_HEAD = re.compile(r"(?:el)?if\s*+\(?\s*+(?:True|1|not\s+False)\s*+\)?\s*+(?:or\b.*)?:")
_ALTERNATIVE = re.compile(r"(?:elif|else)\b")
_LEAVES = re.compile(r"(?:return|raise|continue|break)\b|(?:sys\.exit|os\._exit)\(")
# Of what stands before a brace.
_FALSE_BRACES = re.compile(r"\b(?:if|while)\s*\(\s*(?:false|0|!true|!1)\s*(?:&&|\)$)")
_LEAVES_BRACES = re.compile(r"(?:return|throw|break|continue|goto)\b[^{}]*;\s*$")
# For the compilers of some of these languages.
_LINE_END = re.compile("[\r\x85\u2028\u2029]")
_LABEL = re.compile(r"case\b.*:|(?:default|[A-Za-z_]\w*)\s*:")


@dataclass
class _Indented:
    """Reads one run of lines of a language of indentation."""

    dead_below: int | None = None
    dead_from: int | None = None
    settled: set[int] = field(default_factory=set)

    def read(self, indent: int, code: str) -> bool:
        """Takes a statement; returns whether it is dead."""
        if self.dead_from is not None and indent < self.dead_from:
            self.dead_from = None
        if self.dead_below is not None and indent <= self.dead_below:
            self.dead_below = None
        alternative = _ALTERNATIVE.match(code) is not None
        self.settled = {margin for margin in self.settled if margin < indent or (margin == indent and alternative)}
        dead = self.dead_below is not None or self.dead_from is not None
        if dead:
            return True
        if indent in self.settled or _FALSE_HEAD.match(code):
            self.dead_below = indent
        elif _TRUE_HEAD.match(code):
            self.settled.add(indent)
        elif _LEAVES.match(code):
            self.dead_from = indent
        return False


@dataclass
class _Braced:
    """Reads one run of lines of a language of braces; depths are counts of open braces."""

    depth: int = 0
    dead_within: int | None = None
    dead_from: int | None = None
    ended: bool = True

    def read(self, code: str) -> bool:
        """Takes a line; returns whether it is dead."""
        inner = self.depth - (len(code) - len(code.lstrip("}")))
        if self.dead_from is not None and (inner < self.dead_from or (inner == self.dead_from and _LABEL.match(code))):
            self.dead_from = None
        if self.dead_within is not None and inner <= self.dead_within:
            self.dead_within = None
        dead = self.dead_within is not None or self.dead_from is not None
        if not dead and _opens_dead(code):
            self.dead_within = inner
        elif not dead and self.ended and _LEAVES_BRACES.match(code):
            # Without a brace of its own, a statement belongs to the condition before it; that one has not ended.
            self.dead_from = self.depth
        self.depth = max(0, self.depth + code.count("{") - code.count("}"))
        self.ended = code.endswith((";", "{", "}", ":"))
        return dead


def _opens_dead(code: str) -> bool:
    """Tells whether a line opens a block behind a condition that is false; in time linear in its length."""
    heads = (head.rstrip() for head in code.split("{")[:-1])
    return any(head.endswith(")") and _FALSE_BRACES.search(head) for head in heads)


def dead_lines(lines: Mapping[int, CodeLine], family: Family) -> frozenset[int]:
    """Returns the numbers of lines that never run, among the lines that were read."""
    if family is Family.PYTHON:
        return frozenset(_dead_indented(lines))
    return frozenset(_dead_braced(lines)) if family is Family.BRACES else frozenset()


def _dead_indented(lines: Mapping[int, CodeLine]) -> Iterator[int]:
    state, depth, dead, previous = _Indented(), 0, False, None
    for number in sorted(lines):
        if previous is not None and number != previous + 1:
            state, depth, dead = _Indented(), 0, False
        previous = number
        found = []
        for code, structure in _statements(lines[number]):
            if not depth:
                dead = state.read(_indent(code), code.strip())
            found.append(dead)
            depth = max(0, depth + sum(map(structure.count, "([{")) - sum(map(structure.count, ")]}")))
        if found and all(found):
            yield number


def _statements(line: CodeLine) -> Iterator[tuple[str, str]]:
    """Yields code and structure of a line, parted where a carriage return within it ends a line for Python."""
    for code, structure in zip(line.code.split("\r"), line.structure.split("\r"), strict=True):
        if code.strip():
            yield code, structure


def _indent(code: str) -> int:
    """Returns how far a line is indented; Python counts from the last form feed on."""
    blanks = code[: len(code) - len(code.lstrip())]
    return len(blanks[blanks.rfind("\f") + 1 :].expandtabs())


def _dead_braced(lines: Mapping[int, CodeLine]) -> Iterator[int]:
    state, previous = _Braced(), None
    for number in sorted(lines):
        if previous is not None and number != previous + 1:
            state = _Braced()
        previous = number
        parts = [code for part in _LINE_END.split(lines[number].structure) if (code := part.strip())]
        # Each part is read, also where one before it is alive.
        dead = [state.read(code) for code in parts]
        if dead and all(dead):
            yield number
