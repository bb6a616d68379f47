"""The columns of functions, of WITH queries, of set operations and of recursions."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from services.kit.tools.executor import ToolRefused
from services.sql_executor import grammar
from services.sql_executor.scopes import Column, Columns, Relation, Result, merged
from services.sql_executor.sizes import Size, longest, together

# What a value that a recursion makes longer at each step may reach before time is up.
GROWN = 1_000_000.0


def function_columns(call: pb.FuncCall, name: str, alias: pb.Alias, size: Size) -> Columns:
    """Returns the columns of a function in FROM as Postgres calls them: its own, or one that has the alias's name."""
    if name not in grammar.FUNCTIONS:  # nothing is known of it
        if not alias.colnames:
            raise ToolRefused("unsupported_syntax", f"Name the columns of {name} in FROM: {name}(…) AS t(a, b).")
        return [Column(each.string.sval, Size(stored=1)) for each in alias.colnames]
    if name == "unnest" and len(call.args) > 1:
        return [Column(name, size)] * len(call.args)
    return [Column(column, size) for column in grammar.FUNCTION_COLUMNS.get(name, (alias.aliasname,))]


def cte_relation(node: pb.CommonTableExpr, result: Result) -> Relation:
    """Returns what a WITH query is where it is read."""
    alias = pb.Alias(aliasname=node.ctename, colnames=node.aliascolnames)
    return Relation.of(result).called(alias)


def either(one: Column, other: Columns, operation: int) -> Column:
    """Returns a column of a set operation: of UNION it has the values of both, of the others those that one has too."""
    both = merged(one.name, [one, *other])
    if operation == pb.SETOP_UNION:
        return both
    by_other = operation == pb.SETOP_INTERSECT and not one.origin.is_read
    return both._replace(origin=other[0].origin if by_other and other else one.origin)


def recursive_size(name: str, first: Size, then: Size) -> Size:
    """Returns the size of a recursive column that begins with one value and goes on with another."""
    if then.recursive > 1:
        raise ToolRefused(
            "too_large", f"The recursive column {name[:63]!r} doubles with each step; cut it with left(…, 1000)."
        )
    if not then.recursive or (not then.fixed and not then.stored):
        return longest((first, then._replace(recursive=0)))
    return together((longest((first, Size(GROWN))), Size(stored=then.stored, texts=then.texts)))
