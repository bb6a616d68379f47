"""What the command itself needs of a SQL policy; the executor checks the rest of the file when it loads it."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from services.cli.investigation.yaml_file import read_yaml


class _Policy(BaseModel):
    restricted: list[str] = Field(default_factory=list)


def restricted_tables(policy: Path) -> list[str]:
    """Returns the tables that nobody may read, as the policy names them. Raises BadFile."""
    return read_yaml(policy, _Policy).restricted
