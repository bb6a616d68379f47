"""Which columns the relations of a query have, and which relations a qualified name can mean.

Postgres reads `u.f` as the call `f(u)` when the row `u` has no column `f`. So each qualified name must be a column of
every relation that it can mean; where scopes leave a doubt, of all of them. sqlglot's own `qualify` will not do: it
knows no names that Postgres makes up (`s.count` of a subquery), and lets any column of a function in FROM pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from services.sql_executor.catalog import Catalog
from services.sql_executor.policy import TableName
from services.sql_executor.tables import cte_meant, folded
from services.sql_executor.text import DIALECT, called_name

# A column by the names that it may have: one, but for expressions without an alias, whose name the database makes up.
Names = frozenset[str]
_MADE_UP = frozenset(("?column?", "array", "bool", "case", "exists", "interval"))


class Relations:
    """The relations of one checked query; `tables` has the table behind each of its table nodes, by the node's id."""

    def __init__(self, tables: Mapping[int, TableName], catalog: Catalog) -> None:
        self._tables = tables
        self._catalog = catalog
        self._known: dict[int, Sequence[Names]] = {}

    def meant_by(self, column: exp.Column) -> Iterator[frozenset[str]]:
        """Yield the columns of each relation that a qualified name can mean, from the inside out."""
        qualifier = folded(column.args["table"])
        child: exp.Expr = column
        while (parent := child.parent) is not None:
            if isinstance(parent, exp.Select) and child.arg_key != "with_":
                visible, is_certain = _visible_from(parent, child, column)
                found = [source for source in visible if _name_of(source) == qualifier]
                yield from (frozenset[str]().union(*self._columns(source)) for source in found)
                if found and is_certain:
                    return
            child = parent

    def _columns(self, source: exp.Expr) -> Sequence[Names]:
        if id(source) not in self._known:
            alias = source.args.get("alias")
            renamed = [frozenset((folded(name),)) for name in (alias.args.get("columns") if alias else None) or ()]
            own = list(self._own_columns(source))
            self._known[id(source)] = [*renamed, *own[len(renamed) :]]
        return self._known[id(source)]

    def _own_columns(self, source: exp.Expr) -> Iterable[Names]:
        body = source.this
        if isinstance(source, exp.Lateral) and not isinstance(body, exp.Func):
            return self._own_columns(body)
        if isinstance(source, exp.Values):
            widest = max((len(row.expressions) for row in source.expressions), default=0)
            return [frozenset((f"column{number}",)) for number in range(1, widest + 1)]
        function = source if isinstance(source, exp.Unnest) else body
        if isinstance(function, exp.Func):
            values = frozenset((_name_of(source), _called(function)))
            return [*[values] * max(1, len(function.expressions)), frozenset(("ordinality", _ordinality(function)))]
        if isinstance(source, exp.Table):
            return self._of_table(source)
        if isinstance(source, exp.Subquery) and isinstance(body, exp.Table):
            return [names for each in _with_joined(body) for names in self._columns(each)]
        return self._of_query(source)

    def _of_table(self, table: exp.Table) -> Iterable[Names]:
        if id(table) in self._tables:
            return [frozenset((column.name,)) for column in self._catalog.columns[self._tables[id(table)]]]
        cte = cte_meant(table)
        if cte is None:
            return []
        extra = [frozenset((folded(name),)) for part in cte.parent.find_all(exp.RecursiveWithSearch)
                 for name in (part.args.get("expression"), part.args.get("using"))] if cte.parent else []  # fmt: skip
        return [*self._columns(cte), *extra]

    def _of_query(self, query: exp.Expr) -> Iterator[Names]:
        while isinstance(query, exp.SetOperation | exp.Subquery | exp.CTE | exp.Paren):
            query = query.this
        if isinstance(query, exp.Values):
            yield from self._columns(query)
        elif isinstance(query, exp.Select):
            for projected in query.expressions:
                yield from self._of_projected(projected, query)

    def _of_projected(self, projected: exp.Expr, query: exp.Select) -> Iterable[Names]:
        if isinstance(projected, exp.Star):
            return [names for source in _sources(query) for names in self._columns(source)]
        if isinstance(projected, exp.Column) and isinstance(projected.this, exp.Star):
            qualifier = folded(projected.args.get("table"))
            named = [source for source in _sources(query) if _name_of(source) == qualifier]
            return [names for source in named for names in self._columns(source)]
        return [_names_of(projected)]


def _visible_from(select: exp.Select, child: exp.Expr, column: exp.Column) -> tuple[list[exp.Expr], bool]:
    """Return the relations of a SELECT, and whether names in one of its parts certainly see them first."""
    if child.arg_key == "joins" and isinstance(child, exp.Join) and _is_inside(column, child.args.get("on")):
        before = (select.args.get("joins") or [])[: (child.index or 0) + 1]
        visible = [select.args.get("from_"), *before]
        return [source for part in visible if part is not None for source in _with_joined(part.this)], True
    return list(_sources(select)), child.arg_key not in ("from_", "joins", "laterals")


def _is_inside(node: exp.Expr, container: exp.Expr | None) -> bool:
    current: exp.Expr | None = node
    while current is not None and current is not container:
        current = current.parent
    return current is not None


def _sources(select: exp.Select) -> Iterator[exp.Expr]:
    parts = [select.args.get("from_"), *(select.args.get("joins") or ())]
    for part in parts:
        if part is not None:
            yield from _with_joined(part.this)
    yield from select.args.get("laterals") or ()


def _with_joined(source: exp.Expr) -> Iterator[exp.Expr]:
    """Yield a relation and those joined to it in the same parentheses; parentheses with an alias are one relation."""
    is_bare = isinstance(source, exp.Subquery) and isinstance(source.this, exp.Table) and not source.args.get("alias")
    if is_bare:
        yield from _with_joined(source.this)
    else:
        yield source
    for join in source.args.get("joins") or ():
        yield from _with_joined(join.this)


def _ordinality(function: exp.Expr) -> str:
    """Return the name of the column that counts rows; sqlglot takes it out of the alias's columns."""
    return folded(function.args.get("offset"))


def _name_of(source: exp.Expr) -> str:
    alias = source.args.get("alias")
    if alias is not None:
        return folded(alias.this)
    is_table = isinstance(source, exp.Table) and not isinstance(source.this, exp.Func)
    return folded(source.this) if is_table else _called(source.this or source)


def _names_of(projected: exp.Expr) -> Names:
    if isinstance(projected, exp.Alias):
        return frozenset((folded(projected.args["alias"]),))
    if isinstance(projected, exp.Column):
        return frozenset((folded(projected.this),))
    names = {folded(identifier) for identifier in projected.find_all(exp.Identifier)}
    names |= {_called(function) for function in projected.find_all(exp.Func)}
    names |= {kind.sql(DIALECT).lower() for kind in projected.find_all(exp.DataType)}
    return _MADE_UP | names


def _called(function: object) -> str:
    if not isinstance(function, exp.Func):
        return ""
    rendered = function.sql(DIALECT, comments=False)
    return called_name(rendered) or rendered.lower()
