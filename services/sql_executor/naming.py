"""Names of what the policy makes in the schema `signalbox` of the user's database."""

from __future__ import annotations

import hashlib

from services.sql_executor.policy import SqlPolicy, Way

POLICY_SCHEMA = "signalbox"
CALLER_SETTING = "signalbox.caller"
_MAX_LENGTH = 63


def assignment_view(policy: SqlPolicy, way: Way) -> str:
    """Returns the name of the view that shows the caller's own entries of the tables that lead to owners."""
    first, last = (_plain(policy, way.hops[place].table) for place in (0, -1))
    if len(way.hops) == 1:
        others = [other for other in policy.ways() if len(other.hops) == 1]
        subjects = {other.subject_column for other in others if _plain(policy, other.hops[0].table) == first}
        return _bounded(first if len(subjects) == 1 else f"{first}_by_{way.subject_column}")
    name = f"{first}_to_{last}"
    others = [other for other in policy.ways() if len(other.hops) > 1 and other != way]
    if any(
        (_plain(policy, each.hops[0].table), _plain(policy, each.hops[-1].table)) == (first, last) for each in others
    ):
        name += f"_{hashlib.sha256(repr(way).encode()).hexdigest()[:8]}"
    return _bounded(name)


def keys_function(policy: SqlPolicy, way: Way) -> str:
    """Returns the name of the function that returns the keys of a first table that lead to the caller."""
    return _bounded(f"caller_{way.key}_of_{assignment_view(policy, way)}")


def _plain(policy: SqlPolicy, name: str) -> str:
    table = policy.table_name(name)
    return table.name if table.schema == policy.schemas[0] else f"{table.schema}_{table.name}"


def _bounded(name: str) -> str:
    if len(name.encode()) <= _MAX_LENGTH:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name.encode()[: _MAX_LENGTH - 9].decode(errors='ignore')}_{digest}"
