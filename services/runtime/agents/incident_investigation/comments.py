"""What of lines of a file is code and what is a comment, by the language that the file's name tells.

The lines are a piece of the file: that it begins inside a comment shows only where its lines begin as those do.
Where telling takes too long, nothing counts as code: whoever wrote the file could hide a comment among it.
"""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from pygments.lexers import find_lexer_class_for_filename
from pygments.token import Comment

from services.kit.lexing import Allowance, Lexing, QuickTexts, TooMuchWork

# Of one text. What a tool gives at once is shorter.
MAX_CHARACTERS: Final = 100_000
MAX_WORK: Final = 300_000
THREADS: Final = 2
_BEGINS: Final = re.compile(r"\s*(?:#|//|--|/\*|\*|<!--)")
# Where no lexer is known: what stands by itself as in most languages, outside of quotes.
_UNKNOWN: Final = re.compile(r"""(?:"[^"\n]*"|'[^'\n]*')|(?<=\s)((?:\#|//)(?=\s).*)""")
# What compilers and shells are told, not readers.
_DIRECTIVES: Final = (Comment.Preproc, Comment.PreprocFile, Comment.Hashbang)


class Parted(NamedTuple):
    """A text without its comments, and the comments that stand on lines of code.

    unread: telling takes too long, so there is neither.
    """

    code: str
    comments: tuple[str, ...]
    unread: bool = False


class Parting:
    """Parts texts on threads of its own: one that is slow to read keeps nothing else of the process waiting."""

    def __init__(self, lexing: Lexing) -> None:
        self._lexing = lexing
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="comments")

    async def part(self, path: str, text: str) -> Parted:
        """Parts a text in its turn; one that nobody waits for any more is not begun."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, part, path, text, self._lexing)


def part(path: str, text: str, lexing: Lexing | None = None) -> Parted:
    """Returns a text of a file without its comments; lines that begin as one are left out whole."""
    allowance = Allowance(MAX_CHARACTERS, MAX_WORK, lexing or QuickTexts())
    try:
        allowance.take(len(text))
        found = _comments(path, text, allowance)
    except TooMuchWork:
        return Parted("", (), unread=True)
    code = list(text)
    comments = []
    for start, comment in found:
        end = start + len(comment)
        code[start:end] = [char if char == "\n" else " " for char in comment]
        if not _BEGINS.match(text, text.rfind("\n", 0, start) + 1):
            comments.append(comment)
    lines = zip(text.split("\n"), "".join(code).split("\n"), strict=True)
    return Parted("\n".join(left for line, left in lines if not _BEGINS.match(line)), tuple(comments))


def _comments(path: str, text: str, allowance: Allowance) -> list[tuple[int, str]]:
    name = PurePosixPath(path).name.lower()
    lexer = find_lexer_class_for_filename(name)
    if lexer is None:
        return [(found.start(1), found[1]) for found in _UNKNOWN.finditer(text) if found[1]]
    return [
        (start, value)
        for start, kind, value in allowance.lex(lexer, text)
        if kind[:1] == Comment and kind[:2] not in _DIRECTIVES
    ]
