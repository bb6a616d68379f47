"""Standard streams that take whatever is printed, in any locale and also where a caller has closed them.

What is said on standard error is no part of a command's result: where nobody can take it, it is lost, and the command
goes on. What is printed on standard output is the result: where nobody takes it, the command ends.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

ESCAPES = "json_escapes"
# As a shell tells of a program that SIGPIPE ended.
UNREAD = 141


class _Output(io.FileIO):
    """Standard output; where its reader is gone, the command ends."""

    def write(self, data: Any, /) -> int:
        """Writes the result. Raises OSError, and SystemExit for a reader that is gone.

        For BrokenPipeError, libraries on the way would end the process with statuses of their own.
        """
        try:
            return super().write(data)
        except OSError as error:
            # What is buffered would fail once more when the process ends.
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
            if isinstance(error, BrokenPipeError):
                raise SystemExit(UNREAD) from error
            raise


class _Remarks(io.FileIO):
    """Standard error; where nobody can take what is said there, it is lost."""

    def write(self, data: Any, /) -> int:
        """Writes what can be written, and takes the rest for written."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


def prepare_streams() -> None:
    """Readies the standard streams: what their encoding lacks is escaped, and a closed one leads nowhere.

    The escapes are those of JSON, so that what is printed as JSON stays it.
    """
    codecs.register_error(ESCAPES, _escaped)
    # In this order, in which the lowest free descriptors are given out: no file or socket gets the number of a stream.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)  # as long as the process
            setattr(sys, name, io.TextIOWrapper(io.FileIO(nowhere, mode, closefd=False), encoding="utf-8"))
    sys.stdout = _text(_Output(sys.stdout.fileno(), "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Remarks(sys.stderr.fileno(), "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, before: TextIO) -> TextIO:
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, encoding=before.encoding, errors=ESCAPES, line_buffering=before.isatty())


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
