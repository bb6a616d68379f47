"""Standard streams that take whatever is printed, in any locale and also where a caller has closed them."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from pathlib import Path

ESCAPES = "json_escapes"


def prepare_streams() -> None:
    """Readies the standard streams: what their encoding lacks is escaped, and a closed one leads nowhere.

    The escapes are those of JSON, so that what is printed as JSON stays it.
    """
    codecs.register_error(ESCAPES, _escaped)
    # In this order, in which the lowest free descriptors are given out: no file or socket gets the number of a stream.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ESCAPES)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
