"""Names of what the policy makes in the schema `signalbox` of the user's database."""

from __future__ import annotations

import hashlib

from services.sql_executor.policy import OwnedByJoin, SqlPolicy

POLICY_SCHEMA = "signalbox"
CALLER_SETTING = "signalbox.caller"
_MAX_LENGTH = 63


def assignment_view(policy: SqlPolicy, join: OwnedByJoin) -> str:
    """Return the name of the view that shows the caller's own entries of an assignment table."""
    table = policy.table_name(join.join)
    name = table.name if table.schema == policy.schemas[0] else f"{table.schema}_{table.name}"
    subjects = {other.subject_column for other in policy.joins() if policy.table_name(other.join) == table}
    return _bounded(name if len(subjects) == 1 else f"{name}_by_{join.subject_column}")


def keys_function(policy: SqlPolicy, join: OwnedByJoin) -> str:
    """Return the name of the function that returns the keys an assignment table gives to the caller."""
    return _bounded(f"caller_{join.on}_of_{assignment_view(policy, join)}")


def _bounded(name: str) -> str:
    if len(name.encode()) <= _MAX_LENGTH:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name.encode()[: _MAX_LENGTH - 9].decode(errors='ignore')}_{digest}"
