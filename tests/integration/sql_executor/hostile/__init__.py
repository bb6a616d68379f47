"""Hostile statements: what is sent, and the reason with which the check must refuse it.

An empty reason means that the statement may run: it is an ordinary SELECT that asks for other people's rows, and
row-level security alone has to leave them out. `{backend}` stands for the process id of another session of the reader.
`RUNS_AWAY` is for a statement that grows until a limit of the database ends it: which one it meets first, of time,
memory or temporary files, depends on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

RUNS_AWAY = "timeout or query_failed"


@dataclass(frozen=True)
class Hostile:
    """One statement."""

    sql: str
    reason: str

    def is_answered_by(self, reason: str) -> bool:
        """Returns whether a refusal with this reason, or none, is what the statement must meet."""
        return reason in self.reason.split(" or ")


def table(*rows: tuple[str, str]) -> list[Hostile]:
    """Makes a table of hostile statements."""
    return [Hostile(sql, reason) for sql, reason in rows]
