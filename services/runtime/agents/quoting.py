"""Words that others chose, as they stand in a prompt: data, and nothing that could be taken for more."""

from __future__ import annotations

import json
import re

QUOTED_LENGTH = 1000
# Of what an evaluator says is missing.
MISSING_SHOWN = 20
# What ends a line for some readers and not for others, compilers among them.
_SEPARATORS = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# A carriage return that only belongs to the end of a line.
_LINE_END = re.compile("\r+(?=\n|\\Z)")


def one_line(text: str) -> str:
    """Returns a line that is one for every reader; what would end it for some stands as `<U+…>`, code may follow it."""
    text = _LINE_END.sub(lambda end: " " * len(end[0]), text)
    return _SEPARATORS.sub(lambda separator: f"<U+{ord(separator[0]):04X}>", text)


def cut(text: str, length: int = QUOTED_LENGTH) -> str:
    """Returns as much of a text as a prompt gets."""
    return text if len(text) <= length else text[:length] + "…"


def quoted(text: str, length: int = QUOTED_LENGTH) -> str:
    """Returns a text as one line that can't be taken for anything but a text."""
    return json.dumps(one_line(cut(text, length)), ensure_ascii=False)
