"""Named queries: `sql/<name>.sql`, read once.

`{source.*}` in a query stands for the columns of a run, of that source. A query that said `*` would change its result
when a migration adds a column, and a statement that is prepared fails for good when its result changes.
`{name.sql}` stands for the text of a file: for what several queries ask.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import LiteralString

RUN_COLUMNS = (
    "run_id",
    "agent",
    "graph_version",
    "subject",
    "roles",
    "claims",
    "thread_id",
    "correlation_id",
    "state",
    "input",
    "output",
    "outcome",
    "stop_reason",
    "retryable",
    "error",
    "input_request",
    "answer",
    "budget",
    "model_calls",
    "tool_calls",
    "input_tokens",
    "output_tokens",
    "wall_time_s",
    "epoch",
    "claim_id",
    "idle_claims",
    "not_before",
    "waiting_for",
    "attempts",
    "event_count",
    "traceparent",
    "policy_id",
    "labels",
    "title",
    "forked_from",
    "rolled_back_by",
    "recorded",
    "callback_events",
    "created_at",
    "started_at",
    "ended_at",
)
_COLUMNS_OF = re.compile(r"\{(\w+)\.\*\}")
_PART = re.compile(r"\{(\w+)\.sql\}")
# Comments are for readers; without them nearly every query is short enough for psycopg to remember how it reads it.
_COMMENT = re.compile(r"^\s*--.*\n|^ +", re.MULTILINE)


@cache
def query(name: str, *, several: bool = False) -> LiteralString:
    """Returns the text of a query by its file's name; with `several`, for a step of several tasks.

    Raises FileNotFoundError.
    """
    parts = {"step_writes": "several_writes"} if several else {}
    text = _read(name)
    while _PART.search(text):
        text = _PART.sub(lambda found: _read(parts.get(found[1], found[1])), text)
    return _COLUMNS_OF.sub(lambda found: ", ".join(f"{found[1]}.{column}" for column in RUN_COLUMNS), text)


def _read(name: str) -> str:
    return _COMMENT.sub("", files(__package__).joinpath("sql", f"{name}.sql").read_text())
