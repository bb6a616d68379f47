"""What is wrong with a file that was to be read or written.

CliError
└── BadFile
    ├── BadLog             the log is no SARIF 2.1.0, or points at something it does not have
    └── UnmatchedResults   verdicts and results do not pair up
"""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Collection
from pathlib import Path

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode

SHOWN = 5
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class BadFile(CliError):
    """A file cannot be used as it is."""

    def __init__(self, message: str, *, hint: str = "correct the file and try again") -> None:
        super().__init__(message, hint=hint, code=ExitCode.USAGE)


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


def read_text(path: Path) -> str:
    """Returns a file's text, without a byte order mark; UTF-8, or UTF-16 with its mark. Raises BadFile."""
    try:
        content = path.read_bytes()
        # What a Windows shell redirects into a file is UTF-16.
        return content.decode("utf-16" if content.startswith(_UTF16) else "utf-8-sig")
    except OSError as error:
        raise BadFile(f"can't read {path}: {error.strerror}", hint="name a file that can be read") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not {error.encoding.upper()}: byte {error.start} is wrong") from error


def check_writable(path: Path) -> None:
    """Tries whether a file can be written, and leaves no trace. Raises BadFile."""
    try:
        if path.is_file() or path.is_dir():
            path.open("ab").close()
        elif not path.exists():
            tempfile.TemporaryFile(dir=path.absolute().parent).close()
    except OSError as error:
        raise BadFile(f"can't write {path}: {error.strerror}", hint="name a file that can be written") from error


def write_text(path: Path, text: str) -> None:
    """Writes a file. Raises BadFile."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadFile(f"can't write {path}: {error.strerror}", hint="name a file that can be written") from error


def _few(names: Collection[str]) -> str:
    shown = sorted(names)[:SHOWN]
    return ", ".join(shown) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
