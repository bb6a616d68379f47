"""Edits of an example's statement: change a bound, a column, a literal, a window, a limit; drop a condition.

Every edit either does exactly what it says or raises CannotEdit; none guesses.
"""

from __future__ import annotations

from sqlglot import exp

from services.offline_model.data_questions.reading import Comparison, Window
from services.offline_model.data_questions.statement import CannotEdit, find_interval, find_number, find_strings

_NODES: dict[str, type[exp.Expr]] = {
    "gt": exp.GT, "ge": exp.GTE, "lt": exp.LT, "le": exp.LTE, "eq": exp.EQ, "ne": exp.NEQ,
}  # fmt: skip
_AGGREGATES = {"AVG": exp.Avg, "MAX": exp.Max, "MIN": exp.Min, "SUM": exp.Sum}

_ALIAS_WORDS = {
    "AVG": ("average", "avg", "mean"),
    "MAX": ("highest", "maximum", "max"),
    "MIN": ("lowest", "minimum", "min"),
    "SUM": ("total", "sum"),
}


def rewrite_bound(node: exp.Expr, comparison: Comparison, column: str | None) -> exp.Expr:
    """Replaces a condition by another on the same expression, or on another column of the same table; returns it."""
    changed = make_bound(node.this.copy(), comparison, column)
    node.replace(changed)
    return changed


def add_bound(node: exp.Expr, comparison: Comparison, column: str) -> exp.Expr:
    """Adds a condition on another column beside a condition, with AND; returns it."""
    added = make_bound(node.this.copy(), comparison, column)
    beside = exp.And(this=node.copy(), expression=added)
    node.replace(exp.Paren(this=beside) if isinstance(node.parent, exp.Or | exp.Not) else beside)
    return added


def make_bound(subject: exp.Expr, comparison: Comparison, column: str | None) -> exp.Expr:
    """Builds a condition on an expression, its column exchanged when one is given."""
    if column is not None:
        for found in [subject] if isinstance(subject, exp.Column) else list(subject.find_all(exp.Column)):
            found.set("this", exp.to_identifier(column))
    values = [_literal(value) for value in comparison.values]
    if comparison.operator == "between":
        return exp.Between(this=subject, low=values[0], high=values[1])
    return _NODES[comparison.operator](this=subject, expression=values[0])


def replace_number(tree: exp.Expr, old: str, new: str) -> None:
    """Exchanges a number of the conditions. Raises CannotEdit."""
    node = find_number(tree, old)
    node.replace(_literal(new))


def replace_year(tree: exp.Expr, old: str, new: str) -> None:
    """Exchanges the year of the dates in the conditions. Raises CannotEdit."""
    dates = [node for node in tree.find_all(exp.Literal) if node.is_string and node.name.startswith(f"{old}-")]
    if not (dates and len(old) == len(new) == len("2026") and new.isdecimal()):
        raise CannotEdit(f"no condition compares with {old}")
    for date in dates:
        date.replace(exp.Literal.string(new + date.name[len(old) :]))


def drop_number(tree: exp.Expr, old: str) -> None:
    """Drops the condition that holds a number. Raises CannotEdit."""
    drop_condition(find_number(tree, old))


def replace_string(tree: exp.Expr, old: str, new: str) -> None:
    """Exchanges a string literal, wildcards around it kept. Raises CannotEdit."""
    for literal in find_strings(tree, old):
        text = literal.name
        start = text.lower().index(old.lower())
        # An example that lowers its name compares with lower(…).
        wanted = new.lower() if old != old.lower() and text == text.lower() else new
        literal.replace(exp.Literal.string(text[:start] + wanted + text[start + len(old) :]))


def drop_string(tree: exp.Expr, old: str) -> None:
    """Drops the condition that holds a string literal. Raises CannotEdit."""
    for literal in find_strings(tree, old):
        if isinstance(literal.parent, exp.In) and len(literal.parent.expressions) > 1:
            literal.pop()
        else:
            drop_condition(literal)


def replace_window(tree: exp.Expr, old: Window, new: Window) -> None:
    """Exchanges the interval of the example's window. Raises CannotEdit."""
    find_interval(tree, old).replace(
        exp.Interval(this=exp.Literal.string(str(new.amount)), unit=exp.var(f"{new.unit.upper()}S"))
    )


def drop_window(tree: exp.Expr, old: Window) -> None:
    """Drops the condition of the example's window. Raises CannotEdit."""
    drop_condition(find_interval(tree, old))


def drop_condition(node: exp.Expr) -> None:
    """Drops the condition that a node is part of; only from a chain of ANDs, where that loosens and nothing else."""
    condition: exp.Expr = node
    while condition.parent is not None and not isinstance(condition.parent, exp.And | exp.Where | exp.Having):
        condition = condition.parent
    parent = condition.parent
    if parent is None or _under_or(condition):
        raise CannotEdit("a condition of the example cannot be left out")
    if isinstance(parent, exp.And):
        parent.replace(parent.right if parent.left is condition else parent.left)
    else:
        parent.pop()


def rename_column(tree: exp.Expr, old: str, new: str) -> None:
    """Exchanges a column wherever it stands, in aliases too."""
    for column in tree.find_all(exp.Column):
        if column.name.lower() == old:
            column.set("this", exp.to_identifier(new))
            # The new column may lack values where the old one has all, and Postgres puts them first.
            if isinstance(column.parent, exp.Ordered) and column.parent.args.get("desc"):
                column.parent.set("nulls_first", False)
    _rename_aliases(tree, old, new)


def _rename_aliases(tree: exp.Expr, old: str, new: str) -> None:
    """Keeps the names of the result true: `avg_temperature` becomes `avg_humidity`, where it is made and used."""
    renamed: dict[str, str] = {}
    for alias in tree.find_all(exp.Alias):
        if old in alias.alias.lower():
            renamed[alias.alias.lower()] = alias.alias.lower().replace(old, new)
            alias.set("alias", exp.to_identifier(renamed[alias.alias.lower()]))
    for column in tree.find_all(exp.Column):
        if not column.table and column.name.lower() in renamed:
            column.set("this", exp.to_identifier(renamed[column.name.lower()]))


def swap_aggregate(tree: exp.Expr, old: str, new: str) -> bool:
    """Exchanges an aggregate function of the result; returns whether there was one."""
    found = [
        node
        for shown in tree.expressions
        for node in shown.find_all(_AGGREGATES[old])
        if node.find_ancestor(exp.Query) is tree
    ]
    for node in found:
        node.replace(_AGGREGATES[new](this=node.this))
    for word in _ALIAS_WORDS[old] if found else ():
        _rename_aliases(tree, word, _ALIAS_WORDS[new][0])
    return bool(found)


def flip_order(tree: exp.Expr) -> bool:
    """Turns the outermost order round; returns whether there is one."""
    order = tree.args.get("order")
    if order is None:
        return False
    first = order.expressions[0]
    first.set("desc", not first.args.get("desc"))
    first.set("nulls_first", False)  # what has no value is neither the most nor the least
    return True


def set_limit(tree: exp.Expr, limit: int | None) -> None:
    """Sets or takes away the outermost limit."""
    if limit is None:
        tree.set("limit", None)
    else:
        tree.set("limit", exp.Limit(expression=exp.Literal.number(limit)))


def count_rows(tree: exp.Expr) -> exp.Expr:
    """Makes a query that counts the rows of another."""
    simple = isinstance(tree, exp.Select) and not any(
        tree.args.get(part) for part in ("group", "distinct", "having", "limit", "offset", "windows")
    )
    counted = exp.Count(this=exp.Star())
    if simple and not tree.find(exp.AggFunc):
        tree.set("order", None)
        tree.set("expressions", [counted])
        return tree
    inner = tree.copy()
    return exp.select(counted).from_(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("matches"))))


def drop_projection(tree: exp.Expr, column: str) -> None:
    """Drops what shows or orders by a column, never a condition on it. Raises CannotEdit."""

    def without(expressions: list[exp.Expr]) -> list[exp.Expr]:
        return [
            item for item in expressions if all(found.name.lower() != column for found in item.find_all(exp.Column))
        ]

    kept = without(tree.expressions)
    order = tree.args.get("order")
    if not kept:
        raise CannotEdit(f"nothing is left to show without the column {column}")
    tree.set("expressions", kept)
    if order is not None:
        ordered = without(order.expressions)
        tree.set("order", exp.Order(expressions=ordered) if ordered else None)
    if any(found.name.lower() == column for found in tree.find_all(exp.Column)):
        raise CannotEdit(f"a condition needs the column {column}")


def _under_or(condition: exp.Expr) -> bool:
    parent = condition.parent
    while parent is not None and not isinstance(parent, exp.Where | exp.Having):
        if not isinstance(parent, exp.And | exp.Paren):
            return True
        parent = parent.parent
    return parent is None


def _literal(text: str) -> exp.Expr:
    if text.startswith("-"):
        return exp.Neg(this=exp.Literal.number(text[1:]))
    return exp.Literal.number(text)
