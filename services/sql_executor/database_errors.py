"""What a caller may hear of a database error: enough to mend the query, nothing out of the rows."""

from __future__ import annotations

import psycopg
from psycopg import errors as pg

from services.kit.tools.executor import ToolRefused
from services.sql_executor.errors import DatabaseDown

# Messages of these classes name only what the query itself says: syntax, names and types. All others may quote values.
_QUOTABLE_CLASS = "42"
# Connections, logins, too many connections, a server that stops or starts, and its disks: no query mends these.
_OUTAGES = ("08", "28", "53300", "57P", "58")
_CLASSES = {
    "0A": "the query uses something that this database does not support",
    "22": "a value does not fit its type or its range, for example in a cast, a division by zero or a date",
    "21": "a subquery that must return one row returned more",
    "23": "the query breaks a rule of the data",
    "25": "only reading is possible here",
    "2F": "a function failed",
    "53": "the query needs more memory or temporary space than a query may take; make it smaller",
    "54": "the query is too complex; make it smaller",
    "57": "the query was ended",
    "55": "the query needs something that is in use",
}
_EXACT = {
    "22012": "division by zero; use NULLIF for the divisor",
    "22P02": "a text could not be read as the type it is cast to",
    "22007": "a text could not be read as a date or a time",
    "22008": "a date or a time is out of range",
    "22003": "a number is out of range",
}


def timed_out(timeout_ms: int) -> ToolRefused:
    """Returns the refusal of a query that ran too long."""
    return ToolRefused(
        "timeout", f"The query ran longer than {timeout_ms} ms and was stopped; make it smaller.", retryable=True
    )


def refusal(error: psycopg.Error, timeout_ms: int) -> ToolRefused | DatabaseDown:
    """Returns what the model is told of a database error; of one that is no query's, that the database is down."""
    if isinstance(error, pg.QueryCanceled):
        return timed_out(timeout_ms)
    state = error.sqlstate or "XX000"
    if state.startswith(_OUTAGES):
        return DatabaseDown(f"the user's database can't answer now (SQLSTATE {state})", retry_after_s=1)
    if isinstance(error, pg.InsufficientPrivilege):
        return ToolRefused("access_denied", "The query reads or calls something that is not open to queries.")
    if state.startswith(_QUOTABLE_CLASS):
        return ToolRefused("query_failed", f"The database refused the query: {_primary(error)} (SQLSTATE {state})")
    words = _EXACT.get(state) or _CLASSES.get(state[:2]) or "the query failed"
    return ToolRefused("query_failed", f"The database refused the query: {words} (SQLSTATE {state})")


def _primary(error: psycopg.Error) -> str:
    return " ".join((error.diag.message_primary or "it is not valid").split())[:500]
