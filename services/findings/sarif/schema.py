"""The official JSON schema of SARIF 2.1.0 (errata 01), unchanged, and what it says of a log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from jsonschema import Draft4Validator, ValidationError

SCHEMA_FILE = Path(__file__).with_name("sarif-schema-2.1.0.json")


@cache
def _validator(part: str = "") -> Draft4Validator:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    wanted = {"$ref": f"#/definitions/{part}", "definitions": schema["definitions"]} if part else schema
    return Draft4Validator(wanted)


def violations(log: Any, *, most: int = 5) -> list[str]:
    """Returns what breaks the schema, each with its place; at most so many."""
    return _told(_validator().iter_errors(log), most)


def result_violations(result: Any, *, most: int = 3) -> list[str]:
    """Returns what breaks the schema in one result; at most so many."""
    return _told(_validator("result").iter_errors(result), most)


def _told(errors: Iterable[ValidationError], most: int) -> list[str]:
    found = islice((error for error in errors if not _is_newer_uuid(error)), most)
    return [f"{_place(error.absolute_path)}: {error.message[:200]}" for error in found]


def _is_newer_uuid(error: ValidationError) -> bool:
    """Tells whether all that is wrong is a UUID of a version that is younger than the schema (RFC 9562)."""
    if (
        error.validator != "pattern"
        or not error.absolute_path
        or error.absolute_path[-1] not in ("guid", "correlationGuid")
    ):
        return False
    return re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", str(error.instance)) is not None


def _place(path: Any) -> str:
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "$" + "".join(steps)
