"""The runtime's statements name what they return: a migration that adds a column breaks no prepared statement."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path

from services.runtime.engine.queries import query
from services.runtime.engine.records import RunRecord

FOLDER = files("services.runtime.engine") / "sql"
NAMES = sorted(Path(file.name).stem for file in FOLDER.iterdir())
# What a star says of a row as a whole, where its columns do not become columns of the result; a product; and a prefix.
HARMLESS = re.compile(r"':\*'|count\(\*\)|to_jsonb\(\w+\.\*\)|[\w)] \* %\(")


def test_no_statement_returns_whatever_there_is() -> None:
    assert not [name for name in NAMES if "*" in HARMLESS.sub("", re.sub(r"^\s*--.*$", "", query(name), flags=re.M))]
    assert len(NAMES) > 100


def test_a_run_s_columns_are_those_that_its_record_reads() -> None:
    returned = query("find_run").partition("FROM")[0]
    columns = {column.strip().removeprefix("runs.") for column in returned.removeprefix("SELECT ").split(",")}
    spend = {"model_calls", "tool_calls", "input_tokens", "output_tokens", "wall_time_s"}
    callers = {"subject", "roles", "claims"}
    # Where the budget is from is in its column; whether anybody asks for chunks, only a claim knows.
    made = {"caller", "spend", "budget_origins", "chunks_asked"}
    assert columns - spend - callers == set(RunRecord.__dataclass_fields__) - made


def test_no_statement_longer_than_a_line_stands_in_python() -> None:
    begins = re.compile(r"\s*(?:--.*\n\s*)*(?:WITH|SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DO)\b.*\n\s*\S")
    for source in (Path(__file__).parents[3] / "services").rglob("*.py"):
        texts = [node.value for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Constant)]
        assert not [text for text in texts if isinstance(text, str) and begins.match(text)], source
