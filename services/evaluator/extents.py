"""How far definitions reach, by braces or by indentation; for all lines of a run, in time linear in their length."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from services.evaluator.code_lines import CodeLine
from services.evaluator.languages import Family

_CLOSING = (")", "]", "}")
_SIGN = re.compile(r"[{};]")


def last_lines(run: Sequence[CodeLine], family: Family) -> list[int]:
    """Returns for each line of a run where a definition would end that starts with it."""
    return _braced(run) if family is Family.BRACES else _indented(run)


def _braced(run: Sequence[CodeLine]) -> list[int]:
    """Reads backwards: a definition ends with the brace after which the depth is that before its first one."""
    last = len(run) - 1
    found = [last] * len(run)
    depth = 0
    nearest: dict[int, int] = {}
    # Of the next brace that opens: its line and the depth after it; of a semicolon before that: its line.
    opening: tuple[int, int] | None = None
    ending: int | None = None
    for at in range(last, -1, -1):
        for sign in reversed(_SIGN.findall(run[at].structure)):
            if sign == ";":
                ending = at
                continue
            nearest[depth] = at
            if sign == "{":
                opening, ending = (at, depth), None
            depth += -1 if sign == "{" else 1
        if ending is not None:
            found[at] = ending
        elif opening is not None:
            line, inner = opening
            found[at] = line if inner <= depth else nearest.get(depth, last)
    return found


def _indented(run: Sequence[CodeLine]) -> list[int]:
    """Reads backwards: a definition ends before the next line that is indented no further."""
    codes = [line.code for line in run]
    margins = [_indent(code) for code in codes]
    before, written = [], 0
    for at, code in enumerate(codes):
        before.append(written)
        written = at if code.strip() else written
    found = [0] * len(run)
    # The lines ahead that are indented less than all between: their margins, the smallest first.
    ahead: list[int] = []
    smallest: list[int] = []
    for at in range(len(run) - 1, -1, -1):
        nearer = bisect_right(smallest, margins[at])
        if not nearer:
            found[at] = max(at, written)
        else:
            next_line = ahead[nearer - 1]
            found[at] = next_line if codes[next_line].strip() == "end" else max(at, before[next_line])
        if codes[at].strip() and not codes[at].strip().startswith(_CLOSING):
            del ahead[nearer:], smallest[nearer:]
            ahead.append(at)
            smallest.append(margins[at])
    return found


def _indent(code: str) -> int:
    return len(code.expandtabs()) - len(code.expandtabs().lstrip())
