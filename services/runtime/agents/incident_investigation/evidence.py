"""Looks evidence up where it points: the query is run again, the path walked, the lines read. No model is asked.

What it can't tell is whether a claim follows from what was found; but a number that a claim states must stand there.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from google.protobuf import json_format
from signalbox.v1 import code_reading_pb2, table_pb2

from services.kit.statements.check import unsupported
from services.kit.statements.material import Material
from services.kit.text.quotes import squeezed
from services.runtime.agents.code_review.code_bank import Fragment, reading_of
from services.runtime.agents.code_review.code_tools import CodeTools, Source
from services.runtime.agents.incident_investigation.conclusion import (
    CodeLines,
    Evidence,
    GraphPath,
    QueryResult,
    Value,
)
from services.runtime.agents.incident_investigation.investigation_tools import EXECUTE_DB_QUERY, QUERY_GRAPH
from services.runtime.agents.incident_investigation.state import CheckedEvidence
from services.runtime.calls.tool_client import ToolClient
from services.runtime.routing.run_context import NodeContext

FETCH_CODE: Final = "fetch_code"
FOUND_CHARS: Final = 2000
SHORTEST_QUOTE: Final = 3
# Names are the model's own to choose, and what they are of may be called otherwise elsewhere.
_CHECKED_KINDS: Final = frozenset({"number", "date", "link"})
_TEXT_LITERAL = re.compile(r"'((?:[^']|'')*)'|\$(\w*)\$(.*?)\$\2\$", re.DOTALL)
_BOUND = re.compile(r"\b(?:limit|offset)\s+\d+", re.IGNORECASE)
_CODE: Final = (code_reading_pb2.LINE_PART_KIND_CODE, code_reading_pb2.LINE_PART_KIND_STRING)
_NUMBER_LITERAL = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)")


class EvidenceFails(Exception):
    """What evidence points at is not there, or says something else; the message says what is."""


class _Found(NamedTuple):
    """What stands where evidence points: `text` in words, `shows` the part that may support a claim.

    What stands in `stated` only repeats what the evidence itself says.
    """

    text: str
    shows: str
    stated: str = ""


class EvidenceLookup:
    """Looks evidence up with the executors that it is from."""

    def __init__(self, *, sql: ToolClient, graph: ToolClient, code: CodeTools) -> None:
        self._sql = sql
        self._graph = graph
        self._code = code

    async def check(
        self, context: NodeContext, source: Source | None, evidence: Sequence[Evidence], told: str
    ) -> list[CheckedEvidence]:
        """Returns each piece with what was found; `told` is what the incident itself says, which claims may repeat.

        Raises what `ToolClient.call` does.
        """
        checked = []
        for number, each in enumerate(evidence):
            given = each.model_dump(mode="json", exclude_none=True)
            try:
                found = await self._found(context, source, each, f"evidence-{number}")
                pointer = json.dumps({**given, "claim": ""})
                shows = f"{found.shows} {told}"
                await asyncio.to_thread(check_numbers, each.claim, shows, pointer=pointer, stated=found.stated)
                checked.append(CheckedEvidence(evidence=given, found=_shortened(found.text), problem=""))
            except EvidenceFails as failed:
                checked.append(CheckedEvidence(evidence=given, found="", problem=_shortened(str(failed))))
        return checked

    async def _found(self, context: NodeContext, source: Source | None, evidence: Evidence, call_id: str) -> _Found:
        if evidence.query:
            return await self._row(context, evidence.query, call_id)
        if evidence.graph_path:
            return await self._path(context, evidence.graph_path, call_id)
        assert evidence.code is not None, "evidence has one source"  # noqa: S101 - its validator says so
        return await self._lines(context, source, evidence.code, call_id)

    async def _row(self, context: NodeContext, named: QueryResult, call_id: str) -> _Found:
        if says_itself(named):
            raise EvidenceFails("the query itself states every value that is claimed of its result")
        answer = await self._sql.call(context, EXECUTE_DB_QUERY, {"query": named.query}, call_id)
        if answer.HasField("error"):
            raise EvidenceFails(f"the query was refused ({answer.error.reason}): {answer.error.message}")
        output = answer.output
        if output.HasField("reads_tables") and not output.reads_tables:
            raise EvidenceFails("the query reads no table")
        rows = list(_rows(output.table))
        columns = {column.name for column in output.table.columns}
        if unknown := sorted(named.row.keys() - columns):
            raise EvidenceFails(f"the result has no column {unknown[0]!r}; it has: {', '.join(sorted(columns))}")
        stated = set(output.stated_columns)
        if claimed := sorted(named.row.keys() & stated):
            raise EvidenceFails(f"the query itself states {claimed[0]!r}; claim what it reads from a table")
        for row in rows:
            if all(same_value(row[name], value) for name, value in named.row.items()):
                read = _as_json({name: value for name, value in row.items() if name not in stated})
                return _Found(read, read, _as_json({name: value for name, value in row.items() if name in stated}))
        cut = ", and was cut" if output.table.truncated else ""
        first = f"; its first row: {_as_json(rows[0])}" if rows else ""
        raise EvidenceFails(f"the result has {len(rows)} rows{cut}, none with these values{first}")

    async def _path(self, context: NodeContext, path: GraphPath, call_id: str) -> _Found:
        start, *others = path.nodes
        follow = [
            {
                "type": edge.type,
                "direction": "in" if edge.backwards else "out",
                "label": node.label,
                "where": _keyed(node.key),
            }
            for edge, node in zip(path.edges, others, strict=True)
        ]
        arguments = {"label": start.label, "where": _keyed(start.key), "follow": follow, "limit": 1}
        answer = await self._graph.call(context, QUERY_GRAPH, arguments, call_id)
        if answer.HasField("error"):
            raise EvidenceFails(f"the path can't be walked ({answer.error.reason}): {answer.error.message}")
        with self._graph.reading(f"run {QUERY_GRAPH}"):
            found = json_format.MessageToDict(answer.output.data)["results"]
            walked = [[(node["label"], node["key"]) for node in each["nodes"]] for each in found]
        if [(node.label, node.key) for node in path.nodes] not in walked:
            raise EvidenceFails("there is no such path in the graph")
        return _Found(answer.output.text, answer.output.text)

    async def _lines(self, context: NodeContext, source: Source | None, lines: CodeLines, call_id: str) -> _Found:
        if source is None:
            raise EvidenceFails("the incident came without a repository")
        quote = squeezed(lines.quote)
        if len(quote) < SHORTEST_QUOTE:
            raise EvidenceFails("the quote is too short to prove anything")
        arguments = {
            "path": lines.file,
            "first_line": lines.first_line,
            "last_line": lines.last_line,
            "context_lines": 0,
        }
        found = await self._code.call(context, source, FETCH_CODE, arguments, call_id)
        if found.error:
            raise EvidenceFails(f"the lines can't be read ({found.error.removeprefix('error: ')})")
        there = [each for each in found.fragments if lines.first_line <= each["first_line"] <= lines.last_line]
        if max((fragment["last_line"] for fragment in there), default=0) != lines.last_line:
            raise EvidenceFails(f"the file ends before line {lines.last_line}")
        text = "\n".join(fragment["content"] for fragment in there)
        if quote not in squeezed(text):
            raise EvidenceFails(f"the lines do not hold what is quoted; they are: {text}")
        parted = [line for fragment in there for line in code_and_comments(fragment)]
        code = squeezed("\n".join(code for code, _ in parted))
        comments = [comment for _, beside in parted for comment in beside]
        if quote not in code and not _is_code_with_comments(quote, code, comments):
            raise EvidenceFails("the quote is a comment, which proves nothing about what the code does")
        return _Found(text, code, " ".join(comments))


def code_and_comments(fragment: Fragment) -> Iterator[tuple[str, list[str]]]:
    """Yields each line's code, with the comments beside it; of a line without code, neither.

    Raises EvidenceFails when nobody knows what of the lines is code.
    """
    reading = reading_of(fragment)
    if reading is None or reading.unread:
        why = reading.unread if reading else "the code executor is of a release that does not tell"
        raise EvidenceFails(f"nobody knows what of the lines is code: {why}")
    for line, known in zip(fragment["content"].split("\n"), reading.lines, strict=True):
        code, comments, at = "", [], 0
        for part in known.parts:
            piece = line[at : at + part.characters]
            at += part.characters
            code += piece if part.kind in _CODE else " " * len(piece)
            comments += [piece] if part.kind == code_reading_pb2.LINE_PART_KIND_COMMENT else []
        yield (code, comments) if code.strip() else ("", [])


def _is_code_with_comments(quote: str, code: str, comments: Iterable[str]) -> bool:
    """Tells whether lines are quoted with the comments that end them."""
    for comment in comments:
        quote = squeezed(quote.replace(squeezed(comment), " "))
    return len(quote) >= SHORTEST_QUOTE and quote in code


def same_value(found: Value, claimed: Value) -> bool:
    """Tells whether a value of a result is what is claimed: numbers by their value, instants by their moment."""
    if found is None or claimed is None:
        return found is claimed
    if isinstance(found, bool) or isinstance(claimed, bool):
        return _text(found) == _text(claimed)
    for read in (_decimal, _instant):
        one, other = read(found), read(claimed)
        if one is not None and other is not None:
            return bool(one == other)
    return _text(found) == _text(claimed)


def says_itself(named: QueryResult) -> bool:
    """Tells whether each claimed value stands in the query: such a claim would hold whatever the tables hold."""
    texts = {(match[1] or match[3] or "").replace("''", "'") for match in _TEXT_LITERAL.finditer(named.query)}
    rest = _BOUND.sub(" ", _TEXT_LITERAL.sub(" ", named.query))
    texts |= {match[0] for match in _NUMBER_LITERAL.finditer(rest)}
    return all(any(same_value(text, value) for text in texts) for value in named.row.values())


def check_numbers(claim: str, found: str, *, pointer: str = "", stated: str = "") -> None:
    """Raises EvidenceFails for a number, a day or a link that a claim states and that is nowhere in what was found.

    It may also be one by which the evidence points there, such as a limit in a query's WHERE, but none that it states.
    """
    lacking = _unsupported(claim, found)
    if lacking:
        lacking &= _unsupported(claim, pointer) | (_unsupported(claim, "") - _unsupported(claim, stated))
    for words in sorted(lacking):
        raise EvidenceFails(f"the claim says {words}, which does not stand where it points")


def stated_nowhere(conclusion: Mapping[str, Any], found: Iterable[str]) -> list[str]:
    """Returns in words what a cause and its explanation state, and any link, that stands in nothing that was found."""
    material = Material(texts=found)
    cause = f"{conclusion['root_cause']}\n{conclusion['explanation']}"
    beside = "\n".join([*conclusion["recommendations"], *(each["event"] for each in conclusion["timeline"])])
    stated = [each for each in unsupported(cause, material, most=None) if each.kind in _CHECKED_KINDS]
    stated += [each for each in unsupported(beside, material, most=None) if each.kind == "link"]
    return [f"the answer says {each.words}, which stands in nothing that was found" for each in stated]


def _unsupported(claim: str, material: str) -> set[str]:
    problems = unsupported(claim, Material(texts=[material]), most=None, rounds=False)
    return {problem.words for problem in problems if problem.kind in _CHECKED_KINDS}


def _as_json(row: Mapping[str, Value]) -> str:
    return json.dumps(row, ensure_ascii=False)


def _rows(table: table_pb2.Table) -> Iterable[dict[str, Value]]:
    for row in table.rows:
        yield {column.name: _cell(cell) for column, cell in zip(table.columns, row.values, strict=True)}


def _cell(cell: table_pb2.Cell) -> Value:
    kind = cell.WhichOneof("value")
    return None if kind is None else getattr(cell, kind)


def _keyed(key: str) -> list[dict[str, Any]]:
    return [{"property": "key", "value": key}]


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _decimal(value: Value) -> Decimal | None:
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _instant(value: Value) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(value).strip())
    except ValueError:
        return None
    return found if found.tzinfo else None


def _shortened(text: str) -> str:
    return text if len(text) <= FOUND_CHARS else text[: FOUND_CHARS - 1] + "…"


def problems_of(checked: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns in words what of an answer's evidence does not hold."""
    return [f"{each['evidence']['claim']} — {each['problem']}" for each in checked if each["problem"]]
