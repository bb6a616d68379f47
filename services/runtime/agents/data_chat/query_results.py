"""The results of a question's queries: what may be said of them, and whether they answer it at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from signalbox.v1 import data_chat_pb2, table_pb2, tools_pb2

from services.kit.statements.check import denies, speaks_of_amounts, unsupported
from services.kit.statements.material import Material
from services.kit.statements.readable import UnsupportedStatement
from services.kit.statements.tables import Table, Value
from services.runtime.agents.data_chat.state import QueryRun

NO_TABLE: Final = "The query read no table, so nothing here comes from your data."
STATED: Final = "The query itself may have made up what it shows"
NAMES_NOTHING: Final = "The result holds numbers alone, and does not say which one is asked for."
_MEASURES: Final = frozenset(
    {
        table_pb2.COLUMN_TYPE_INT,
        table_pb2.COLUMN_TYPE_DOUBLE,
        table_pb2.COLUMN_TYPE_NUMERIC,
        table_pb2.COLUMN_TYPE_BOOL,
    }
)
# A number of that name says which one, and not how much of it.
_KEY: Final = re.compile(
    r"(?:^|_)(?:id|key|no|nr|num|code|name|number|year|month|week|day|hour|rank)s?$", re.IGNORECASE
)
# With a verb between (`which is the mean temperature of …`), all words up to the next little one are what is asked for.
_ASKS_WHICH: Final = re.compile(
    r"\b(?:which|who|whom|whose|welche[rsmn]?|wer|wen|wem|wessen|cu\u00e1l(?:es)?|qu\u00e9|qui\u00e9n(?:es)?)\b"
    r"(?:\s+(?P<is>is|are|was|were|ist|sind|war|waren|es|son|fue|fueron|era|eran)\b)?"
    r"(?:\s+(?:(?:one\s+)?of\s+)?"
    r"(?:(?:my|the|our|these|those|meine[rnms]?|der|die|das|mis?|el|la|los|las|de)\s+)*"
    r"(?P<thing>[^\W\d_]+)(?P<more>(?:\s+(?!(?:of|in|on|for|with|that|by|from|than|von|mit|bei|de|en|con|que|por|para)\b)"
    r"[^\W\d_]+)*))?",
    re.IGNORECASE,
)
# Other ways to ask which one, or when or where; and by what a result that says so is known, though it is of numbers.
_ASKS_WHAT: Final = re.compile(
    r"\bwhat\s+(?P<thing>(?!(?:about|all|else|exactly|had|has|have|if|is|are|was|were|did|do|does|can|could|should|will"
    r"|would|happened|of|part|the|my)\b)[^\W\d_]+)"
    r"\s+(?:has|had|have|is|are|was|were|with|read|reads|reached|recorded|used)\b"
    r"|(?:^|[.!?]\s*)(?:please\s+)?(?:name|nenne|nenn|nombra|dime)\s+(?:me\s+|mir\s+)?(?:the|my|das|die|den|el|la)\s+"
    r"(?P<named>[^\W\d_]+(?:\s+(?!(?:of|in|with|that|from|for|von|mit|de|con|que)\b)[^\W\d_]+){0,3})"
    r"|\b(?:what|wie)\s+(?:is|are|was|were|lautet|ist)\s+(?:the|der)\s+names?\s+(?:of|des|der)\b",
    re.IGNORECASE,
)
_AMOUNT: Final = re.compile(
    r"(?:amount|average|count|fraction|highest|lowest|mean|number|percent\w*|proportion|ratio|share|size|sum|total|value"
    r"|anzahl|anteil|summe|wert\w*|zahl|cantidad|n\u00famero|promedio|total|valor)s?",
    re.IGNORECASE,
)
_ELSEWHERE: Final = (
    (
        re.compile(r"(?:^|[.!?\u00bf]\s*)(?:when|wann|cu\u00e1ndo)\b", re.IGNORECASE),
        re.compile(
            r"year|month|week|day|hour|date|time|epoch|extract|since|_at\b|jahr|monat|tag|a\u00f1o|mes|fecha",
            re.IGNORECASE,
        ),
    ),
    (
        re.compile(r"(?:^|[.!?\u00bf]\s*)(?:where|wo|d\u00f3nde)\b", re.IGNORECASE),
        re.compile(r"lat|lon|lng|coord|pos|loc|place|ort|lugar|zip|plz|floor|room", re.IGNORECASE),
    ),
)
_SELECTED: Final = re.compile(r"\bselect\b(.*?)\bfrom\b", re.IGNORECASE | re.DOTALL)
# Two words are the same in two languages by so many first letters (Temperatur).
_ALIKE: Final = 5
# What else is measured and is one thing, by how its words begin.
_SAME: Final = (
    ("pressure", "presión", "presion", "druck", "luftdruck"),
    ("humid", "humedad", "feucht", "luftfeucht"),
    ("speed", "velocidad", "veloc", "geschwindigkeit"),
    ("price", "precio", "preis"),
    ("cost", "coste", "costo", "kosten"),
    ("voltage", "voltaje", "spannung"),
    ("weight", "peso", "gewicht"),
    ("height", "altura", "höhe"),
    ("length", "longitud", "länge"),
    ("amount", "importe", "betrag"),
    ("quantity", "cantidad", "menge"),
    ("salary", "salario", "gehalt"),
)
_MOST_NAMES: Final = 2000
MOST_ROWS_TOLD: Final = 500


def run_of(result: tools_pb2.ToolOutput, question: str) -> QueryRun:
    """Returns what a query brought, with what speaks against taking it for an answer."""
    return QueryRun(
        sql_query=result.sql_query,
        rows=result.table.SerializeToString(),
        result_text=result.text,
        stated=list(result.stated_columns),
        doubt=_doubt(result, question),
    )


def runs_of(state: Mapping[str, Any]) -> list[QueryRun]:
    """Returns the queries that brought a result, in order."""
    if "rows" not in state:
        return []
    # The last release noted the number alone.
    unread = state.get("grounding") == data_chat_pb2.GROUNDING_NOT_CHECKED
    last = QueryRun(
        sql_query=state.get("sql_query", ""),
        rows=state["rows"],
        result_text=state.get("result_text", ""),
        stated=list(state.get("stated") or ()),
        doubt=state.get("doubt", NO_TABLE if unread else ""),
    )
    return [*(state.get("earlier_results") or ()), last]


def grounding_by(runs: Iterable[QueryRun]) -> data_chat_pb2.Grounding:
    """Returns what an answer rests on that words these results."""
    if any(run["doubt"] for run in runs):
        return data_chat_pb2.GROUNDING_NOT_CHECKED
    return data_chat_pb2.GROUNDING_ANSWERED_FROM_DATA


def names_nothing(question: str, table: table_pb2.Table, sql_query: str) -> bool:
    """Tells whether a question asks which one, and the result says only how much: numbers, and no name, key or day.

    One that asks which temperature is answered by a temperature.
    """
    if not table.rows or any(column.type not in _MEASURES or _KEY.search(column.name) for column in table.columns):
        return False
    selected = _SELECTED.search(sql_query)
    shown = [*(column.name for column in table.columns), selected[1] if selected else ""]
    said = " ".join(shown)
    if any(asks.search(question) and not says.search(said) for asks, says in _ELSEWHERE):
        return True
    for asked in _ASKS_WHAT.finditer(question):
        things = (asked["thing"] or asked["named"] or "").split()
        if not any(_AMOUNT.fullmatch(thing) or _speaks_of(shown, thing) for thing in things):
            return True
    return any(
        not any(_speaks_of(shown, each) for each in _asked_for(asked)) for asked in _ASKS_WHICH.finditer(question)
    )


def problems_of(wording: str, question: str, runs: Sequence[QueryRun]) -> list[UnsupportedStatement]:
    """Returns what a wording states that stands neither in what was read nor in the question.

    What says that there is none, that it can't be answered, or of how many something is, has to state some of what was
    found, where anything was. Where a question asks which, the wording has to name one that was found.
    """
    tables = _tables_of(runs)
    found = unsupported(wording, _material_of(tables, question))
    names = list(_names(tables))[:_MOST_NAMES]
    is_named = any(_is_named(name, wording.casefold()) for name in names)
    if not found and not is_named and not _states_what_was_found(wording, question, tables):
        found = [UnsupportedStatement("number", "(nothing of what was found)")]
    if not found and names and not is_named and _ASKS_WHICH.search(question):
        found = [UnsupportedStatement("name", "(none of what was found)")]
    return found


def support_of(question: str, runs: Sequence[QueryRun]) -> Callable[[str], bool] | None:
    """Returns what says of a sentence whether all that it states was read; None where it may not be told by itself.

    Of what is doubted the answer says so first, and many rows take too long to be gone through sentence by sentence.
    """
    tables = _tables_of(runs)
    if any(run["doubt"] for run in runs) or sum(len(table.rows) for table, _ in tables) > MOST_ROWS_TOLD:
        return None
    material = _material_of(tables, question)
    return lambda sentence: not unsupported(sentence, material)


def _tables_of(runs: Sequence[QueryRun]) -> list[tuple[table_pb2.Table, frozenset[str]]]:
    # Of what is doubted the answer says so itself; its words must still be what it shows.
    return [(table_pb2.Table.FromString(run["rows"]), frozenset(() if run["doubt"] else run["stated"])) for run in runs]


def _material_of(tables: Sequence[tuple[table_pb2.Table, frozenset[str]]], question: str) -> Material:
    return Material(
        tables=_read(tables),
        texts=[question],
        counts=[len(table.rows) for table, _ in tables],
        labels=[column.name for table, _ in tables for column in table.columns],
    )


def _read(tables: Sequence[tuple[table_pb2.Table, frozenset[str]]]) -> list[Table]:
    read = []
    for table, stated in tables:
        kept = [at for at, column in enumerate(table.columns) if column.name not in stated]
        rows = [[_cell(row.values[at]) for at in kept] for row in table.rows]
        read.append(Table(rows, [table.columns[at].name for at in kept]))
    return read


def _states_what_was_found(
    wording: str, question: str, tables: Sequence[tuple[table_pb2.Table, frozenset[str]]]
) -> bool:
    """Tells whether a wording whose statements all hold states more than a question does by itself."""
    found = {_cell(cell) for table, _ in tables for row in table.rows for cell in row.values} - {None}
    # The question vouches for its words and for no number: one that asks whether there are 42 is answered by 42.
    stated = {*unsupported(wording, Material(texts=["1"], labels=[question]), most=None)}
    # All holds: what does not by the question does by what was found, and only of the rest the rows are read again.
    if stated and unsupported(wording, Material(texts=["1", question]), most=1):
        return True
    if stated and stated - {*unsupported(wording, Material(tables=_read(tables), labels=[question]), most=None)}:
        return True
    # What speaks of no amount at all is not wrong: the rows are there.
    if not stated and not speaks_of_amounts(wording):
        return True
    # Where nothing was found, that is said; a yes or a no, and a single one, stand for nothing that could be looked up.
    return denies(wording) if not found - {0} else found <= {0, 1} and not denies(wording)


def _names(tables: Iterable[tuple[table_pb2.Table, frozenset[str]]]) -> Iterator[str]:
    for table, _ in tables:
        for row in table.rows:
            for column, cell in zip(table.columns, row.values, strict=True):
                is_name = column.type == table_pb2.COLUMN_TYPE_TEXT or _KEY.search(column.name)
                if is_name and cell.WhichOneof("value"):
                    yield str(_cell(cell)).casefold().strip()


def _is_named(name: str, wording: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name[:80])}", wording) is not None


def _asked_for(asked: re.Match[str]) -> list[str]:
    return [asked["thing"], *(asked["more"].split() if asked["is"] else ())] if asked["thing"] else []


def _speaks_of(shown: Iterable[str], thing: str) -> bool:
    thing = thing.casefold()
    heads = (thing[:_ALIKE], *(head for heads in _SAME if thing.startswith(heads) for head in heads))
    return any(word.startswith(heads) for text in shown for word in re.findall(r"[^\W\d_]+", text.casefold()))


def _doubt(result: tools_pb2.ToolOutput, question: str) -> str:
    """Returns why a result is no answer from data; an empty string for one that is.

    An executor of an earlier release does not say what was read: its results count as they did then. To doubt them
    would leave every question of a rolling upgrade to a person.
    """
    if result.HasField("reads_tables") and not result.reads_tables:
        return NO_TABLE
    stated = set(result.stated_columns)
    if stated and all(column.name in stated for column in result.table.columns):
        return f"{STATED} ({', '.join(result.stated_columns)})."
    return NAMES_NOTHING if names_nothing(question, result.table, result.sql_query) else ""


def _cell(cell: table_pb2.Cell) -> Value:
    kind = cell.WhichOneof("value")
    return None if kind is None else getattr(cell, kind)
