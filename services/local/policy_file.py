"""What the command itself needs of a SQL policy; the executor checks the rest of the file when it loads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from services.kit.text.policy_file import load_policy_file

# Where a table's rule names the column that holds an owner; the other columns there only lead to it.
_OWNER_KEYS = ("column", "subject_column")


class _Table(BaseModel):
    owned_by: dict[str, Any] | None = None


class _Policy(BaseModel):
    restricted: list[str] = Field(default_factory=list)
    tables: dict[str, _Table] = Field(default_factory=dict)


def restricted_tables(policy: Path) -> list[str]:
    """Returns the tables that nobody may read, as the policy names them. Raises PolicyFileError."""
    return load_policy_file(policy, _Policy).restricted


def owner_columns(policy: Path) -> list[str]:
    """Returns the columns that hold the owners of rows, each once, as the policy names them. Raises PolicyFileError."""
    rules = [table.owned_by or {} for table in load_policy_file(policy, _Policy).tables.values()]
    named = [rule[key] for rule in rules for key in _OWNER_KEYS if isinstance(rule.get(key), str)]
    return list(dict.fromkeys(named))
