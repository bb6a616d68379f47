"""Which files have no lines: decided once, when a commit is written, for what is shown and what is searched alike."""

from __future__ import annotations

import codecs

from services.code_executor.languages import language_of

UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# git's own test: a NUL among the first bytes makes a file binary.
_BINARY_BYTES = 8000


def is_binary(content: bytes, path: str) -> bool:
    """Tells whether a file is no text.

    A program is text whatever it holds: compilers and interpreters read on past a NUL, and a comment with one would
    hide the rest.
    """
    if content.startswith(tuple(UTF16)) or language_of(path) is not None:
        return False
    return b"\0" in content[:_BINARY_BYTES]


def binary_refusal(shown_path: str, size_bytes: int) -> str:
    """Returns what is said to who asks for the lines of such a file."""
    return f"{shown_path} is a binary file of {size_bytes} bytes; it has no lines"
