"""Named statements from the `.sql` files beside this module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import LiteralString

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"\A(?:--.*\n)+")


def load_queries(file: str) -> Mapping[str, LiteralString]:
    """Returns the statements of a file in `sql/` by name; each begins with a line `-- name: <name>`."""
    text = files("services.sql_executor").joinpath("sql", file).read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    # They are this package's own files, as trusted as its code.
    return {name: _COMMENT.sub("", body).strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
