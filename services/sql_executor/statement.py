"""The check of one statement: exactly one SELECT that only reads what the policy shows.

What runs is written from the checked tree with the caller's filter in it, and is parsed again and compared with that
tree (`syntax.py`), so that nothing runs but what was checked; and every table in it has its filter (`sent.py`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from postgast import pg_query_pb2 as pb

from services.sql_executor.callers import SqlCaller
from services.sql_executor.catalog import Catalog
from services.sql_executor.owner_filter import add_owner_filter
from services.sql_executor.selects import Selects
from services.sql_executor.sent import check_sent
from services.sql_executor.syntax import SyntaxThread, read, write
from services.sql_executor.table_uses import TableUse

_REMEMBERED: Final = 256


@dataclass(frozen=True)
class CheckedStatement:
    """A statement that passed: its tree, the tables in it, and what of its result is read from any of them.

    `parts` of its plan may each hold `work_mem`.
    """

    tree: pb.SelectStmt
    parts: int
    uses: Sequence[TableUse]
    reads_tables: bool
    stated_columns: Sequence[str]


@dataclass(frozen=True)
class CallersStatement:
    """A statement as it runs for a caller.

    `reads_tables` is False when nothing in its result can be from a table; `stated_columns` are those of its columns
    whose values are not. `parts` of its plan may each hold `work_mem`.
    """

    sql: str
    parts: int
    reads_tables: bool
    stated_columns: Sequence[str]


def check_statement(query: str, catalog: Catalog) -> CheckedStatement:
    """Checks a query, on the syntax thread. Raises ToolRefused, with a reason code and words that help to mend it."""
    tree = read(query, catalog.policy.limits)
    selects = Selects(catalog)
    columns = selects.statement(tree)
    stated = tuple(dict.fromkeys(column.name for column in columns if not column.origin.is_read))
    return CheckedStatement(tree, selects.parts, selects.uses, selects.reads_tables, stated)


def statement_for(query: str, caller: SqlCaller, catalog: Catalog) -> CallersStatement:
    """Returns what runs of a query for a caller, on the syntax thread. Raises ToolRefused."""
    checked = check_statement(query, catalog)
    add_owner_filter(checked.uses, caller, catalog)
    written = write(checked.tree)
    check_sent(written.tree, caller, catalog)
    return CallersStatement(written.text, checked.parts, checked.reads_tables, checked.stated_columns)


class Statements:
    """The statements of one policy: checks each text once for a caller, and remembers the last of them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._thread = SyntaxThread()
        self._known: OrderedDict[tuple[str, SqlCaller], CallersStatement] = OrderedDict()
        # A caller has one statement at the thread: others come in between, however many it sends.
        self._turns: WeakValueDictionary[SqlCaller, asyncio.Lock] = WeakValueDictionary()

    async def for_caller(self, query: str, caller: SqlCaller) -> CallersStatement:
        """Returns what runs of a query for a caller. Raises ToolRefused."""
        key = query, caller
        if (known := self._known.get(key)) is None:
            async with self._turns.setdefault(caller, asyncio.Lock()):
                known = await self._thread.run(statement_for, query, caller, self._catalog)
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return known

    def close(self) -> None:
        """Ends the thread that checks."""
        self._thread.close()
