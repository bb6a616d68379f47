"""What is said of a query that is refused for its syntax, its patterns or its columns."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from postgast import pg_query_pb2 as pb

from services.kit.tools.executor import ToolRefused
from services.sql_executor import grammar
from services.sql_executor.sizes import literal

_BACK_REFERENCE: Final = re.compile(r"\\[1-9]|\(\?")
_PATH: Final = re.compile(r"\$(\.(\w{1,60}|\"[^\"\\]{0,60}\")|\[(\d{1,9}|\*|last)\]){0,20}")
_MAX_PATTERN: Final = 200
_MAX_REPETITIONS: Final = 2


def check_pattern(node: pb.Node) -> None:
    """Checks a regular expression: what Postgres can't be stopped at, or takes much memory for. Raises ToolRefused."""
    pattern = literal(node)
    if pattern is None or len(pattern) > _MAX_PATTERN or _BACK_REFERENCE.search(pattern):
        raise ToolRefused(
            "function_refused",
            f"A regular expression must be a literal of at most {_MAX_PATTERN} characters, without back-references and "
            "look-around; or use LIKE.",
        )
    if pattern.count("{") > _MAX_REPETITIONS:
        raise ToolRefused("function_refused", "A regular expression may count repetitions ({m,n}) twice; or use LIKE.")


def check_path(nodes: Sequence[pb.Node]) -> None:
    """Checks the arguments of a JSON path: what compares members with members can't be stopped. Raises ToolRefused."""
    if len(nodes) != 1 or not _PATH.fullmatch(literal(nodes[0]) or ""):
        raise ToolRefused(
            "function_refused",
            "A JSON path must be a literal of names, numbers and [*], such as '$.a[*].b'.",
        )


def no_column(name: str, known: Iterable[str]) -> ToolRefused:
    """Returns the refusal of a column that there is not."""
    if name in grammar.SYSTEM_COLUMNS:
        return ToolRefused("system_catalog", f"The system column {name!r} can't be read.")
    near = difflib.get_close_matches(name, sorted(set(known)), n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "the columns are in this tool's description."
    return ToolRefused("unknown_column", f"There is no column {name[:63]!r} in the tables of this query; {hint}")


_WORDS: Final = {
    "ParamRef": "A parameter ($1)", "RangeTableSample": "TABLESAMPLE", "ResTarget": "This column",
    "catalogname": "A database in a table's name", "is_rowsfrom": "ROWS FROM", "coldeflist": "A column definition list",
    "func_variadic": "VARIADIC", "bsval": "A bit string", "use_op": "ORDER BY … USING",
    "join_using_alias": "An alias after USING",
}  # fmt: skip


def syntax_refused(name: str, field: str = "") -> ToolRefused:
    """Returns the refusal of a message of the tree, or of one of its fields."""
    if name in grammar.WRITES or field == "into_clause":
        return ToolRefused("write_refused", "Only reading is possible here; nothing can be written or changed.")
    if field == "locking_clause":
        return ToolRefused("lock_refused", "Rows can't be locked here; leave out FOR UPDATE and FOR SHARE.")
    shown = _WORDS.get(field) or _WORDS.get(name) or re.sub(r"(?<!^)(?=[A-Z][a-z])", " ", name)
    return ToolRefused("unsupported_syntax", f"{shown} is not supported here; write the query without it.")
