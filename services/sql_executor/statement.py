"""The check of one statement: exactly one SELECT that only reads what the policy shows.

What runs afterwards is generated from the checked tree, never the text that came in, so that a place where sqlglot and
Postgres read a text differently can't smuggle anything past the check.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from services.kit.tool_executor import ToolRefused
from services.sql_executor import grammar
from services.sql_executor.catalog import Catalog
from services.sql_executor.policy import TableName
from services.sql_executor.relations import Relations
from services.sql_executor.tables import folded, read_tables
from services.sql_executor.text import DIALECT, called_name, read_text

# Its warnings quote statements; what it can't read is refused here anyway.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

# Each level of nesting in the text takes a few levels of the tree; chains of operators are left-deep.
_TREE_LEVELS_PER_NESTING = 5
_SYNTAX = grammar.NODES | grammar.SYNTAX_FUNCTIONS


@dataclass(frozen=True)
class CheckedStatement:
    """A statement that passed: its tree, and the table behind each of its table nodes by the node's id."""

    tree: exp.Query
    tables: Mapping[int, TableName]


def check_statement(query: str, catalog: Catalog) -> CheckedStatement:
    """Check a query. Raises ToolRefused, with a reason code and words that help to mend it."""
    limits = catalog.policy.limits
    text, tokens = read_text(query, limits)
    try:
        tree = _one_select(_parse(text, tokens))
        _check_depth(tree, limits.depth * _TREE_LEVELS_PER_NESTING)
        for node in tree.walk():
            _check_node(node, catalog)
        tables = read_tables(tree, catalog)
        _check_columns(tree, tables, catalog)
        return CheckedStatement(tree, tables)
    except RecursionError as error:
        raise ToolRefused("too_deep", "The query nests too deep to be read. Use CTEs.") from error


def render(tree: exp.Query) -> str:
    """Return the SQL of a checked tree, as it is run and shown; the tree is used up."""
    return tree.sql(DIALECT, comments=False, copy=False)


def _parse(text: str, tokens: list[Token]) -> list[exp.Expr | None]:
    try:
        return Dialect.get_or_raise(DIALECT).parser().parse(tokens, text)
    except ParseError as error:
        near = error.errors[0] if error.errors else {}
        where = f" near {near['highlight'][:60]!r}, line {near['line']}" if near.get("highlight") else ""
        raise ToolRefused("unparsable", f"The query is not valid PostgreSQL{where}; write one SELECT.") from error
    except (SqlglotError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # What sqlglot raises besides, on texts that its parser did not foresee.
        raise ToolRefused("unparsable", "The query is not valid PostgreSQL; write one SELECT.") from error


def _one_select(parsed: list[exp.Expr | None]) -> exp.Query:
    trees = [tree for tree in parsed if tree is not None]
    if len(trees) != 1:
        raise ToolRefused("multiple_statements", "Write exactly one statement; this has more than one.")
    root = trees[0]
    if isinstance(root, grammar.WRITES):
        raise ToolRefused("write_refused", "Only SELECT statements run here; nothing can be written or changed.")
    if not isinstance(root, exp.Select | exp.SetOperation | exp.Subquery):
        raise ToolRefused("not_a_select", "Only one SELECT statement runs here, optionally with CTEs before it.")
    return root


def _check_depth(tree: exp.Expr, limit: int) -> None:
    waiting: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > limit:
            raise ToolRefused("too_deep", "The query nests too deep; use CTEs, or IN (…) for long chains of OR.")
        waiting += [(child, depth + 1) for child in node.iter_expressions()]


def _check_node(node: exp.Expr, catalog: Catalog) -> None:
    if isinstance(node, grammar.WRITES):
        raise ToolRefused(
            "write_refused", "Only reading is possible here, in CTEs too; nothing can be written or changed."
        )
    if isinstance(node, exp.Func) and type(node) not in grammar.SYNTAX_FUNCTIONS:
        _check_function(node, catalog)
    elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
        raise ToolRefused("function_refused", f"{node.sql(DIALECT)[:60]}: call functions without a schema.")
    elif type(node) not in _SYNTAX:
        raise ToolRefused(
            "unsupported_syntax", f"{_described(node)} is not supported here; write the query without it."
        )
    _check_parts(node)
    if isinstance(node, exp.DataType) and node.this not in grammar.TYPES:
        raise ToolRefused(
            "cast_refused", f"The type {node.sql(DIALECT)} is not supported here; use a plain type such as text."
        )


def _check_parts(node: exp.Expr) -> None:
    kind = next((each for each in grammar.PARTS if isinstance(node, each)), None)
    if kind is None:
        return
    extra = sorted(name for name, value in node.args.items() if value and name not in grammar.PARTS[kind])
    if "locks" in extra:
        raise ToolRefused("lock_refused", "Rows can't be locked here; leave out FOR UPDATE and FOR SHARE.")
    if "into" in extra:
        raise ToolRefused("write_refused", "SELECT INTO makes a table; leave out INTO.")
    if extra:
        raise ToolRefused(
            "unsupported_syntax", f"{extra[0].strip('_').upper()} is not supported here; write the query without it."
        )


def _check_function(node: exp.Func, catalog: Catalog) -> None:
    rendered = node.sql(DIALECT, comments=False)
    is_call = _is_one_call(rendered)
    name = called_name(rendered) if is_call else ""
    if name in grammar.FUNCTIONS or name in catalog.policy.functions.allow:
        return
    # What sqlglot has as a function may reach the database as an operator, for example regexp_like(a, b) as a ~ b.
    if not is_call and isinstance(node, exp.Binary):
        raise ToolRefused(
            "unsupported_syntax", f"{_described(node)} is not supported here; use LIKE or ILIKE for patterns."
        )
    shown = name or rendered.split("(")[0][:60]
    raise ToolRefused("function_refused", f"The function {shown} may not be called here; use another way.")


def _is_one_call(rendered: str) -> bool:
    """Whether a text is a call from its first to its last character, and no operator whose left side is a call."""
    depth = 0
    tokens = Dialect.get_or_raise(DIALECT).tokenize(rendered)
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if not depth and token.token_type is TokenType.R_PAREN:
            return token is tokens[-1] and len(tokens) > 2
    return False


def _described(node: exp.Expr) -> str:
    return re.sub(r"(?<!^)(?=[A-Z][a-z])", " ", type(node).__name__)


def _check_columns(tree: exp.Query, tables: Mapping[int, TableName], catalog: Catalog) -> None:
    of_tables = {column.name for table in set(tables.values()) for column in catalog.columns[table]}
    columns = [column for column in tree.find_all(exp.Column) if isinstance(column.this, exp.Identifier)]
    unknown = [column for column in columns if not column.table and folded(column.this) not in of_tables]
    made = set(_made_names(tree)) if unknown else set()
    for column in unknown:
        _check_special(column, folded(column.this))
        if folded(column.this) not in made:
            _refuse_column(column, folded(column.this), set(_relation_names(tree)), of_tables)
    relations = Relations(tables, catalog)
    for column in columns:
        if column.table:
            _check_qualified(column, relations)


def _check_qualified(column: exp.Column, relations: Relations) -> None:
    name = folded(column.this)
    found = list(relations.meant_by(column))
    if not found:
        shown = column.sql(DIALECT)[:100]
        raise ToolRefused("unknown_table", f"{shown} names {column.table!r}, which is no table or alias here.")
    missing = next((columns for columns in found if name not in columns), None)
    if missing is not None:
        _check_special(column, name)
        _refuse_column(column, name, set(), set(missing))


def _relation_names(tree: exp.Query) -> Iterator[str]:
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Func):
            yield folded(table.args["alias"].this) if table.args.get("alias") else folded(table.this)
    for node in tree.find_all(exp.Subquery):
        if node.args.get("alias"):
            yield folded(node.args["alias"].this)


def _made_names(tree: exp.Query) -> Iterator[str]:
    """Names of columns that the query makes itself: aliases, and functions without one."""
    for alias in tree.find_all(exp.Alias):
        yield folded(alias.args["alias"])
    for named in tree.find_all(exp.TableAlias):
        yield from (folded(column) for column in named.args.get("columns") or ())
        owner = named.parent
        is_function = isinstance(owner, exp.Unnest | exp.Lateral) or (
            isinstance(owner, exp.Table) and isinstance(owner.this, exp.Func)
        )
        if is_function:
            yield folded(named.this)
    for function in tree.find_all(exp.Func):
        if called := called_name(function.sql(DIALECT, comments=False)):
            yield called
        if isinstance(function, exp.Unnest):
            yield folded(function.args.get("offset"))
    yield from ("case", "array", "exists", "bool", "ordinality", "column1", "column2", "column3", "column4", "column5")


def _check_special(column: exp.Column, name: str) -> None:
    """Refuse names that mean something to Postgres by themselves, also when the query makes a column so called."""
    if name in grammar.SYSTEM_COLUMNS:
        raise ToolRefused("system_catalog", f"The system column {name!r} can't be read.")
    if not column.table and name in grammar.SPECIAL_NAMES and not column.this.args.get("quoted"):
        raise ToolRefused("function_refused", f"{name} may not be called here; the caller is known already.")


def _refuse_column(column: exp.Column, name: str, relations: set[str], of_tables: set[str]) -> None:
    if not column.table and name in relations:
        raise ToolRefused("whole_row", f"{name!r} is a whole row here; name the columns you need.")
    near = difflib.get_close_matches(name, sorted(of_tables), n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "the columns are in this tool's description."
    raise ToolRefused("unknown_column", f"There is no column {name!r} in the tables of this query; {hint}")
