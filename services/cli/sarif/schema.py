"""The official JSON schema of SARIF 2.1.0 (errata 01), unchanged, and what it says of a log."""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from jsonschema import Draft4Validator

SCHEMA_FILE = Path(__file__).with_name("sarif-schema-2.1.0.json")


@cache
def _validator() -> Draft4Validator:
    return Draft4Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def violations(log: Any, *, most: int = 5) -> list[str]:
    """Returns what breaks the schema, each with its place; at most so many."""
    found = islice(_validator().iter_errors(log), most)
    return [f"{_place(error.absolute_path)}: {error.message[:200]}" for error in found]


def _place(path: Any) -> str:
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "$" + "".join(steps)
