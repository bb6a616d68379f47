"""Postgres's own grammar: a text to its tree and back, on a thread whose stack is large enough for any text read here.

libpg_query has no guard of its stack, so the thread's is sized for the longest text that a policy may allow, and what
the grammar takes quadratic time for is bounded before it is parsed. What is written from a tree is parsed again and
compared with it: the deparser leaves out parentheses in some nestings.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import postgast
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message
from postgast import pg_query_pb2 as pb

from services.kit.tools.executor import ToolRefused
from services.sql_executor.policy import Limits

_T = TypeVar("_T")
# Chains of 200,000 characters, the most that a policy may allow, take less than half of it.
_STACK_BYTES: Final = 64 << 20
_MAX_TOKENS: Final = 6000
# The lexer reads a run of operator characters anew for each of them, and nested comments without spaces are such runs.
_OPERATOR_RUN: Final = re.compile(r"[-+*/<>=~!@#%^&|`?]{1000}")
_MAX_COMMENTS: Final = 1000
POSITIONS: Final = frozenset({"location", "list_start", "list_end", "rexpr_list_start", "rexpr_list_end"})
_TOO_DEEP: Final = "The query nests too deep to be read (for example more than 47 joins in a row); use CTEs or IN (…)."
# An operand that the deparser may leave without its parentheses, and where it stands.
_OPERATORS: Final = frozenset(
    {
        "a_expr",
        "bool_expr",
        "null_test",
        "boolean_test",
        "sub_link",
        "collate_clause",
        "func_call",
        "a_indirection",
        "type_cast",
    }
)
_OPERAND: Final = "signalbox_operand_{}"
_OPERANDS: Final = re.compile(r"\bsignalbox_operand_(\d+)\b")


class SyntaxThread:
    """The one thread on which statements are parsed and written."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="syntax")
        with _stack_size_lock:
            before = threading.stack_size(_STACK_BYTES)
            try:
                self._thread.submit(int).result()  # starts it
            finally:
                threading.stack_size(before)

    async def run(self, work: Callable[..., _T], *arguments: Any) -> _T:
        """Runs a function there."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(wait=False)


_stack_size_lock = threading.Lock()


def read(query: str, limits: Limits) -> pb.SelectStmt:
    """Returns the tree of the one SELECT in a text, positions included. Raises ToolRefused.

    To be called on the syntax thread.
    """
    _check_text(query, limits)
    tree = _parse(query)
    if not tree.stmts:
        raise ToolRefused("empty", "The query is empty; write one SELECT statement.")
    if len(tree.stmts) > 1:
        raise ToolRefused("multiple_statements", "Write exactly one statement; this has more than one.")
    statement = tree.stmts[0].stmt
    kind = statement.WhichOneof("node") or ""
    if kind in _WRITES:
        raise ToolRefused("write_refused", "Only SELECT statements run here; nothing can be written or changed.")
    if kind != "select_stmt":
        raise ToolRefused("not_a_select", "Only one SELECT statement runs here, optionally with CTEs before it.")
    return statement.select_stmt


_WRITES: Final = frozenset(
    {
        "insert_stmt", "update_stmt", "delete_stmt", "merge_stmt", "create_stmt", "create_table_as_stmt", "view_stmt",
        "create_function_stmt", "drop_stmt", "truncate_stmt", "copy_stmt", "alter_table_stmt", "index_stmt",
    }
)  # fmt: skip


class Written(NamedTuple):
    """A text, and the tree that Postgres reads in it, without positions."""

    text: str
    tree: pb.SelectStmt


def write(select: pb.SelectStmt) -> Written:
    """Returns a text that Postgres reads as exactly this tree, which must have no positions. Raises ToolRefused."""
    for text in _texts(select):
        try:
            again = _parse(text).stmts
        except ToolRefused:
            continue
        if len(again) == 1:
            without_positions(again[0].stmt)
            if again[0].stmt.select_stmt == select:
                return Written(text, again[0].stmt.select_stmt)
    raise ToolRefused(
        "unsupported_syntax", "The query's operators nest in a way that can't be written back; use CASE or a subquery."
    )


def without_positions(message: Message) -> None:
    """Takes the positions in the text out of a tree."""
    for field, value in message.ListFields():
        kind = _kind_of(field)
        if kind is _Kind.ONE:
            without_positions(value)
        elif kind is _Kind.MANY:
            for child in value:
                without_positions(child)
        elif kind is _Kind.POSITION:
            message.ClearField(field.name)


class _Kind(Enum):
    PLAIN, POSITION, ONE, MANY = range(4)


@cache
def _kind_of(field: FieldDescriptor) -> _Kind:
    if field.message_type is not None:
        return _Kind.MANY if field.is_repeated else _Kind.ONE
    return _Kind.POSITION if field.name in POSITIONS else _Kind.PLAIN


def _check_text(query: str, limits: Limits) -> None:
    if len(query) > limits.query_length:
        raise ToolRefused("too_long", f"The query has {len(query)} characters; at most {limits.query_length} are read.")
    if "\x00" in query:  # the text would end there for the parser
        raise ToolRefused("odd_character", "The query has a NUL character; write it without.")
    if not query.isascii() and any("\ud800" <= character <= "\udfff" for character in query):
        raise ToolRefused("odd_character", "The query has half of a surrogate pair; write it without.")
    if _OPERATOR_RUN.search(query) or query.count("/*") > _MAX_COMMENTS:
        raise ToolRefused("too_deep", "The query has too many comments or operators in a row; write it without.")
    try:
        tokens = len(postgast.scan(query).tokens)
    except postgast.PgQueryError as error:
        raise _unparsable(query, error) from error
    if tokens > _MAX_TOKENS:
        raise ToolRefused("too_long", f"The query has {tokens} words and signs; at most {_MAX_TOKENS} are read.")


def _parse(text: str) -> pb.ParseResult:
    try:
        return postgast.parse(text)
    except postgast.PgQueryError as error:
        if error.message.startswith("memory exhausted"):
            raise ToolRefused("too_deep", _TOO_DEEP) from error
        raise _unparsable(text, error) from error
    except DecodeError as error:  # Python's protobuf reads a hundred levels
        raise ToolRefused("too_deep", _TOO_DEEP) from error


def _unparsable(text: str, error: postgast.PgQueryError) -> ToolRefused:
    before = text.encode()[: max(error.cursorpos - 1, 0)].decode(errors="ignore")
    line = before.count("\n") + 1
    message = " ".join(error.message.split())[:150]
    return ToolRefused("unparsable", f"The query is not valid PostgreSQL, line {line}: {message}. Write one SELECT.")


def _texts(select: pb.SelectStmt) -> Iterator[str]:
    try:
        tree = pb.ParseResult(stmts=[pb.RawStmt(stmt=pb.Node(select_stmt=select))])
        yield postgast.deparse(tree)
        yield _with_parentheses(tree)
    except (postgast.PgQueryError, EncodeError, DecodeError) as error:
        raise ToolRefused("too_deep", _TOO_DEEP) from error


def _with_parentheses(tree: pb.ParseResult) -> str:
    """Writes a tree with parentheses around every operand of an operator that is an operator itself.

    Each such operand is written on its own, and a name that stands for it in the tree is replaced by it.
    """
    tree = pb.ParseResult.FromString(tree.SerializeToString())
    operands: list[pb.Node] = []
    _take_operands(tree, False, operands)
    texts: list[str] = []
    for operand in operands:  # the inner ones come first
        alone = pb.SelectStmt(target_list=[pb.Node(res_target=pb.ResTarget(val=operand))], op=pb.SETOP_NONE)
        alone.limit_option = pb.LIMIT_OPTION_DEFAULT
        text = postgast.deparse(pb.ParseResult(stmts=[pb.RawStmt(stmt=pb.Node(select_stmt=alone))]))
        texts.append("(" + _filled(text.removeprefix("SELECT "), texts) + ")")
    return _filled(postgast.deparse(tree), texts)


def _filled(text: str, operands: list[str]) -> str:
    return _OPERANDS.sub(lambda found: operands[int(found[1])] if int(found[1]) < len(operands) else found[0], text)


def _take_operands(message: Message, of_operator: bool, operands: list[pb.Node]) -> None:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for child in value if field.is_repeated else (value,):
            if not isinstance(child, pb.Node):
                _take_operands(child, of_operator and field.message_type.name == "List", operands)
                continue
            kind = child.WhichOneof("node") or ""
            is_operator = kind in _OPERATORS
            _take_operands(getattr(child, kind), is_operator or (of_operator and kind == "list"), operands)
            is_element = isinstance(message, pb.A_Indirection) and field.name == "arg" and kind != "column_ref"
            if is_element or (of_operator and is_operator):
                operand = pb.Node()
                operand.CopyFrom(child)
                name = pb.Node(string=pb.String(sval=_OPERAND.format(len(operands))))
                child.CopyFrom(pb.Node(column_ref=pb.ColumnRef(fields=[name])))
                operands.append(operand)
