"""Lists of thousands of ids or numbers as Postgres writes an array; psycopg would convert them item by item."""

from __future__ import annotations

from collections.abc import Iterable

NULL = "NULL"


def array_literal(plain: Iterable[str]) -> str:
    """Returns an array of ids, numbers and `NULL`, which need no quoting."""
    return "{" + ",".join(plain) + "}"
