"""Named statements: `sql/<name>.sql`, read once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import LiteralString


@cache
def statement(name: str) -> LiteralString:
    """Returns the text of a statement by its file's name. Raises FileNotFoundError."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_text()
