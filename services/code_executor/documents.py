"""A file as text: lines as they were committed, and a word on what could not be shown as it is."""

from __future__ import annotations

import codecs
import io
import re
import tokenize
from dataclasses import dataclass

from services.code_executor.binary import UTF16, binary_refusal, is_binary
from services.code_executor.errors import ContentRefused
from services.code_executor.languages import Language, language_of
from services.code_executor.line_ends import INNER_LINE_END, INNER_RETURN
from services.code_executor.manifest import Entry
from services.code_executor.paths import show_path
from services.code_executor.snapshots import Snapshot

# Codecs, as Python names them, in which each ASCII byte is its character and no other byte is: what is code in UTF-8 is
# code in these too.
_LIKE_ASCII = frozenset({"utf-8", "utf-8-sig", "ascii", "iso8859-1", "iso8859-15", "cp1251", "cp1252", "koi8-r"})
_PYTHON = (".py", ".pyw", ".pyi", ".pyx", ".pxd", ".pxi")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_NO_SCRIPTS = frozenset({"python", "c", "cpp", "java", "go"})
_LFS = "version https://git-lfs.github.com/spec/"
_BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class Document:
    """A file's lines, without their line ends.

    text: the whole, lines ended by a line feed. notes: what a reader should know, one sentence each.
    """

    entry: Entry
    text: str
    lines: tuple[str, ...]
    language: Language | None
    notes: tuple[str, ...]


def open_document(snapshot: Snapshot, entry: Entry) -> Document:
    """Reads a file as text; blocks. Raises ContentRefused."""
    text, notes = decode(snapshot.read(entry), entry.path)
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if text.startswith(_LFS):
        notes.append("this is a Git LFS pointer: the file's content is stored elsewhere and cannot be read here")
    if not _BIDIRECTIONAL.isdisjoint(text):
        notes.append("the file holds characters that reverse the direction of text; they are shown as <U+…>")
    language = language_of(entry.path)
    hiding = INNER_RETURN if language and language.name in _NO_SCRIPTS else INNER_LINE_END
    if hiding.search(text):
        notes.append(
            "the file holds carriage returns or line separators within lines, shown as <U+…>: most languages end a "
            "line there, and with it a comment, so that what follows is code"
        )
    return Document(entry, text, tuple(line.rstrip("\r") for line in lines), language, tuple(notes))


def decode(content: bytes, path: str) -> tuple[str, list[str]]:
    """Returns a file's text and notes on it.

    Raises ContentRefused for a binary file, and for a program that Python reads as other text than would be shown.
    """
    for mark, encoding in UTF16.items():
        if content.startswith(mark):
            return _clean(content[2:].decode(encoding, "replace")), ["the file is UTF-16, shown as text"]
    if is_binary(content, path):
        raise ContentRefused("binary_file", binary_refusal(show_path(path), len(content)))
    if path.lower().endswith(_PYTHON):
        _check_declared(content, path)
    try:
        return _clean(content.decode("utf-8-sig")), []
    except UnicodeDecodeError as error:
        where = f"the file is not valid UTF-8 (first at byte {error.start})"
        note = f"{where}; such bytes are shown as \N{REPLACEMENT CHARACTER}"
        return _clean(content.decode("utf-8-sig", "replace")), [note]


def _check_declared(content: bytes, path: str) -> None:
    """Raises ContentRefused for a program that declares an encoding in which its bytes may be other code (PEP 263)."""
    # Python ends lines at carriage returns too, and looks for the declaration before it decodes anything.
    head = re.split(rb"\r\n?|\n", content.removeprefix(codecs.BOM_UTF8), maxsplit=2)[:2]
    try:
        declared, _ = tokenize.detect_encoding(io.BytesIO(_NOT_ASCII.sub(b"?", b"\n".join(head))).readline)
        codec = codecs.lookup(declared).name
    except SyntaxError:
        declared, codec = "one that Python does not know", ""
    if codec not in _LIKE_ASCII:
        raise ContentRefused(
            "encoding_not_shown",
            f"{show_path(path)} declares an encoding in which it may be another program than its bytes show "
            f"({declared}); it cannot be shown, and nothing can be said of what it does",
        )


def _clean(text: str) -> str:
    # Databases refuse a NUL in text, and it is no character of any source file.
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
