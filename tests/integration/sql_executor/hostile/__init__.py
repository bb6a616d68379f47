"""Hostile statements: what is sent, and the reason with which the check must refuse it.

An empty reason means that the statement may run: it is an ordinary SELECT that asks for other people's rows, and
row-level security alone has to leave them out. `{backend}` stands for the process id of another session of the reader.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hostile:
    """One statement."""

    sql: str
    reason: str


def table(*rows: tuple[str, str]) -> list[Hostile]:
    """Make a table of hostile statements."""
    return [Hostile(sql, reason) for sql, reason in rows]
