"""The executor's two tools: what they are called, what they take, and what they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import psycopg
from google.protobuf import json_format, struct_pb2
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from psycopg_pool import PoolTimeout
from signalbox.v1 import tools_pb2

from services.kit.identity.caller import Caller
from services.kit.telemetry.logs import get_logger
from services.kit.tools.executor import ToolRefused
from services.kit.tools.names import (
    EXECUTE_DB_QUERY,
    GET_FEW_SHOT_EXAMPLES,
)
from services.kit.wire import deadline
from services.sql_executor.callers import sql_caller
from services.sql_executor.catalog import Catalog
from services.sql_executor.errors import DatabaseDown
from services.sql_executor.examples import ExampleStoreError, Retrieved
from services.sql_executor.execution import QueryRunner
from services.sql_executor.statement import Statements

log = get_logger()

_EXAMPLES, _NOTES = 3, 2
_QUESTION_LENGTH = 4000


class Examples(Protocol):
    """Where examples come from."""

    async def nearest(self, question: str, examples: int = 3, notes: int = 2) -> Retrieved:
        """Returns what is nearest to a question."""


class JsonSchema:
    """A JSON Schema of arguments, and the check of a call's by it."""

    def __init__(self, **properties: Mapping[str, Any]) -> None:
        self.document: Mapping[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": sorted(properties),
            "additionalProperties": False,
        }
        self._validator = Draft202012Validator(self.document)

    def checked(self, tool: str, arguments: struct_pb2.Struct) -> Mapping[str, Any]:
        """Returns a call's arguments as plain values. Raises ToolRefused."""
        try:
            values = json_format.MessageToDict(arguments)
        except ValueError as error:  # NaN and infinities, which JSON lacks
            raise ToolRefused("invalid_arguments", f"The arguments of {tool} hold a number that is none.") from error
        problem = best_match(self._validator.iter_errors(values))
        if problem is not None:
            raise ToolRefused("invalid_arguments", f"The arguments of {tool} are not valid: {problem.message[:300]}.")
        return values


class QueryTool:
    """`execute_db_query`: one SELECT, of which a caller sees only their own rows."""

    name = EXECUTE_DB_QUERY

    def __init__(self, catalog: Catalog, statements: Statements, runner: QueryRunner, *, text_rows: int) -> None:
        self._catalog = catalog
        self._statements = statements
        self._runner = runner
        self._text_rows = text_rows
        limits = catalog.policy.limits
        self.description = (
            "Runs one read-only PostgreSQL SELECT (CTEs allowed) and returns its rows. The caller's own rows are "
            f"selected by itself: never filter by user. At most {limits.row_cap} rows come back.\n\n{catalog.summary()}"
        )
        self._schema = JsonSchema(
            query={"type": "string", "minLength": 1, "description": "One PostgreSQL SELECT statement."}
        )
        self.input_schema = self._schema.document

    async def call(self, arguments: struct_pb2.Struct, caller: Caller) -> tools_pb2.ToolOutput:
        """Checks the query, add the caller's filter, run it."""
        query = self._schema.checked(self.name, arguments)["query"]
        owner = sql_caller(caller, self._catalog.policy)
        statement = await self._statements.for_caller(query, owner)
        result = await self._runner.run(statement.sql, owner, parts=statement.parts, within_s=deadline.remaining())
        return tools_pb2.ToolOutput(
            text=result.to_text(self._text_rows),
            sql_query=statement.sql,
            table=result.to_proto(),
            truncated=bool(result.truncated_by),
            reads_tables=statement.reads_tables,
            stated_columns=statement.stated_columns,
        )


class ExamplesTool:
    """`get_few_shot_examples`: the nearest example questions with their SQL, and the nearest business notes."""

    name = GET_FEW_SHOT_EXAMPLES
    description = (
        f"Finds the {_EXAMPLES} example questions nearest to a question, with the SQL that answers them, and the "
        f"{_NOTES} nearest notes on what words mean in this business."
    )

    def __init__(self, store: Examples) -> None:
        self._store = store
        words = "The question, in words."
        self._schema = JsonSchema(
            question={"type": "string", "minLength": 1, "maxLength": _QUESTION_LENGTH, "description": words}
        )
        self.input_schema = self._schema.document

    async def call(self, arguments: struct_pb2.Struct, _caller: Caller) -> tools_pb2.ToolOutput:
        """Looks the question up; examples are for all callers.

        Raises DatabaseDown where their database can't be reached: without them a model may find no query for what it
        would have answered. A store that was never set up is another matter.
        """
        question = self._schema.checked(self.name, arguments)["question"]
        try:
            found = await self._store.nearest(question, examples=_EXAMPLES, notes=_NOTES)
        except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout) as error:
            raise DatabaseDown("the database of the examples can't be reached", retry_after_s=1) from error
        except (ExampleStoreError, psycopg.Error) as error:
            log.warning("examples unavailable", error=str(error))
            raise ToolRefused(
                "examples_unavailable", "There are no examples at the moment; write the query without.", retryable=True
            ) from error
        output = tools_pb2.ToolOutput(text=_examples_text(found))
        output.data.update(
            {
                "examples": [
                    {"question": each.question, "sql": each.sql, "score": each.score} for each in found.examples
                ],
                "notes": [{"text": each.text, "score": each.score} for each in found.notes],
                "method": found.method,
            }
        )
        return output


def _examples_text(found: Retrieved) -> str:
    parts = [f"Question: {each.question}\nSQL: {each.sql}" for each in found.examples]
    if found.notes:
        parts.append("\n".join(f"- {each.text}" for each in found.notes))
    return "\n\n".join(parts) or "There are no examples."
