"""What of lines of a file is code and what is a comment, by the language that the file's name tells.

The lines are a piece of the file: that it begins inside a comment shows only where its lines begin as those do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from pygments.lexers import find_lexer_class_for_filename
from pygments.token import Comment

_BEGINS: Final = re.compile(r"\s*(?:#|//|--|/\*|\*|<!--)")
# Where no lexer is known: what stands by itself as in most languages, outside of quotes.
_UNKNOWN: Final = re.compile(r"""(?:"[^"\n]*"|'[^'\n]*')|(?<=\s)((?:\#|//)(?=\s).*)""")
# What compilers and shells are told, not readers.
_DIRECTIVES: Final = (Comment.Preproc, Comment.PreprocFile, Comment.Hashbang)


class Parted(NamedTuple):
    """A text without its comments, and the comments that stand on lines of code."""

    code: str
    comments: tuple[str, ...]


def part(path: str, text: str) -> Parted:
    """Returns a text of a file without its comments; lines that begin as one are left out whole."""
    code = list(text)
    comments = []
    for start, comment in _comments(path, text):
        end = start + len(comment)
        code[start:end] = [char if char == "\n" else " " for char in comment]
        if not _BEGINS.match(text, text.rfind("\n", 0, start) + 1):
            comments.append(comment)
    lines = zip(text.split("\n"), "".join(code).split("\n"), strict=True)
    return Parted("\n".join(left for line, left in lines if not _BEGINS.match(line)), tuple(comments))


def _comments(path: str, text: str) -> Iterable[tuple[int, str]]:
    name = PurePosixPath(path).name.lower()
    lexer = find_lexer_class_for_filename(name)
    if lexer is None:
        return [(found.start(1), found[1]) for found in _UNKNOWN.finditer(text) if found[1]]
    return [
        (start, value)
        for start, kind, value in lexer().get_tokens_unprocessed(text)
        if kind[:1] == Comment and kind[:2] not in _DIRECTIVES
    ]
