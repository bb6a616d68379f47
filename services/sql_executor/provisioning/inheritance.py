"""Tables whose rows are read through another one: what inherits from a shown table, partitions among it.

Who reads a table reads the rows of its descendants too, and Postgres heeds the grants and the row-level security of the
table that is named, and of no other. What the policy says of a descendant has to hold on that way as well.
"""

from __future__ import annotations

from typing import Any

from services.sql_executor.policy import OwnedByColumn, SqlPolicy, TableName, TableRule, Way
from services.sql_executor.provisioning.difference import Difference, State

_MEND = "; take it out (ALTER TABLE … NO INHERIT, or DETACH PARTITION), or mend the policy file"


async def inheritance_differences(state: State) -> list[Difference]:
    """Compares what the policy says of shown tables and of their descendants; all of it is for a person to mend."""
    rules = state.policy.visible()
    restricted = state.policy.restricted_names()
    rows = await state.rows(
        "descendants", schemas=[table.schema for table in rules], names=[table.name for table in rules]
    )
    found = []
    for row in rows:
        table, above = TableName(row.schema, row.name), TableName(row.above_schema, row.above_name)
        if table.name in restricted:
            problem = f"{table} is restricted, and is read through {above}, which it belongs to"
        elif table in rules:
            problem = _other_rule(row, table, above, state.policy)
        elif rules[above].shared and not row.only_partitions:
            problem = f"{table} is not in the policy file, and every caller reads it through {above}, which it inherits"
        else:
            continue
        if problem:
            found.append(Difference(problem + _MEND))
    return found


def _other_rule(row: Any, table: TableName, above: TableName, policy: SqlPolicy) -> str:
    """Returns what the ancestor shows of a table beyond the table's own rule; "" when it is nothing."""
    own, wider = policy.visible()[table], policy.visible()[above]
    # Everybody may read a shared table; through an owned one they read less of it.
    if not own.shared and _owner(own, policy) != _owner(wider, policy):
        return f"{table} has other owners than {above}, through which its rows are read by the rule of that one"
    shown = row.above_columns if wider.columns is None else wider.columns
    hidden = [] if own.columns is None else [column for column in shown if column not in own.columns]
    if hidden:
        return f"{table} does not show {', '.join(hidden)}, which is read through {above}"
    return ""


def _owner(rule: TableRule, policy: SqlPolicy) -> tuple[object, ...] | None:
    """Returns how a rule finds owners, in the same words for rules that mean the same."""
    if isinstance(rule.owned_by, OwnedByColumn):
        return (rule.owned_by.column,)
    way: Way | None = rule.way
    if way is None:
        return None
    return (way.subject_column, *((policy.table_name(hop.table), hop.column, hop.key) for hop in way.hops))
