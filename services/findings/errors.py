"""What can go wrong with findings: each error says what happened, and what to do next.

FindingsError
├── BadFile                a file can't be used as it is
│   ├── BadLog             the log is not SARIF 2.1.0, or points at something it does not have
│   └── UnmatchedResults   verdicts and results do not pair up
└── BadRepository          the repository, or the commit, can't be read here
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Final

SHOWN: Final = 5
_GZIP: Final = b"\x1f\x8b"
UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class FindingsError(Exception):
    """What happened, in `message`, and what to do next, in `hint`."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadFile(FindingsError):
    """A file cannot be used as it is."""

    def __init__(self, message: str, *, hint: str = "correct the file and try again") -> None:
        super().__init__(message, hint=hint)


class BadLog(BadFile):
    """A log of findings cannot be read."""


class UnmatchedResults(BadFile):
    """Verdicts without a result, or results without a verdict; nothing is written."""

    def __init__(self, *, without_result: Collection[str], without_verdict: Collection[str]) -> None:
        parts = []
        if without_result:
            parts.append(f"{len(without_result)} verdicts match no result of the log: {_few(without_result)}")
        if without_verdict:
            parts.append(f"{len(without_verdict)} results have no verdict: {_few(without_verdict)}")
        super().__init__("; ".join(parts), hint="use the very log that was investigated; nothing was written")


class BadRepository(FindingsError):
    """There is no such repository or commit here, or the platform may not read it."""


# Read whole it takes ten times as much memory. GitHub takes logs of 10 MB, packed.
MOST_BYTES = 64 * 1024 * 1024


def read_text(path: Path) -> str:
    """Returns a file's text, without its byte order mark: UTF-8 or UTF-16, packed by gzip or not. Raises BadFile."""
    try:
        with path.open("rb") as file:
            opened = gzip.GzipFile(fileobj=file) if file.peek(2).startswith(_GZIP) else file
            content = opened.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise BadFile(
                f"{path} has more than {MOST_BYTES:,} bytes", hint="give it in parts, such as a log for each tool"
            )
        # What a Windows shell redirects into a file is UTF-16.
        return content.decode("utf-16" if content.startswith(UTF16) else "utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadFile(f"{path} begins as gzip does, and is not: {error}") from error
    except OSError as error:
        raise BadFile(f"can't read {path}: {error.strerror}", hint="name a file that can be read") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not {error.encoding.upper()}: byte {error.start} is wrong") from error


def _few(names: Collection[str]) -> str:
    shown = sorted(names)[:SHOWN]
    return ", ".join(shown) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
