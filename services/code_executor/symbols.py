"""Definitions, calls and the function around a line, by tree-sitter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from tree_sitter import Node, Tree

from services.code_executor.languages import (
    BODIED,
    CLASS,
    DECLARATION,
    DECLARATOR,
    FUNCTION,
    VALUE,
    VARIABLE,
    Language,
)
from services.code_executor.line_ends import INNER_RETURN
from services.code_executor.syntax import PARSE_S, field_of, last_line, parse, walk

_MAX_NAME_BYTES = 256
# Decorators and the like beside the one thing wrapped; counted once per thing, so few.
_MAX_WRAPPED = 16
# Kinds whose names qualify what is inside.
_SCOPES = frozenset(
    {"class", "struct", "union", "interface", "record", "enum", "namespace", "annotation", "type", FUNCTION}
)
# A definition reaches as far as these around it: decorators, `export`, `template <…>`, `const`.
_WRAPPERS = frozenset(
    {
        "ambient_declaration",
        "const_declaration",
        "decorated_definition",
        "export_statement",
        "expression_statement",
        "lexical_declaration",
        "template_declaration",
        "type_declaration",
        "var_declaration",
        "variable_declaration",
    }
)
_NAME_FIELDS = ("name", "declarator", "left", "property", "key")
_CALLEE_FIELDS = ("attribute", "field", "property", "name")
_NAMES = frozenset({"qualified_identifier", "member_expression"})
_FUNCTION_VALUES = frozenset({"arrow_function", "function_expression", "generator_function"})
_SEPARATORS = re.compile(r"::|\.|#|->")
_TEMPLATE_ARGUMENTS = re.compile(r"<[^<>]*>")
_IDENTIFIER = re.compile(r"[~#@]?[\w$]+[?!]?")


@dataclass(frozen=True)
class Definition:
    """A named thing of a file and the lines it takes, 1-based and inclusive."""

    name: str
    scope: tuple[str, ...]
    kind: str
    first_line: int
    last_line: int

    @property
    def qualified_name(self) -> str:
        """The name with what encloses it, joined by dots."""
        return ".".join((*self.scope, self.name))

    @property
    def span(self) -> str:
        """The lines, in words."""
        return f"lines {self.first_line}-{self.last_line}"

    def as_data(self) -> dict[str, Any]:
        """Returns the definition for machines."""
        return {
            "name": self.qualified_name,
            "kind": self.kind,
            "first_line": self.first_line,
            "last_line": self.last_line,
        }

    def matches(self, symbol: Sequence[str]) -> bool:
        """Tells whether a name, perhaps partly qualified, names this: its parts are the last ones of the full name."""
        full = (*self.scope, self.name)
        return full[max(0, len(full) - len(symbol)) :] == tuple(symbol)


@dataclass(frozen=True)
class FileSymbols:
    """What a file defines, in order, and the names it calls, with their lines."""

    definitions: tuple[Definition, ...]
    calls: tuple[tuple[str, int], ...]

    def enclosing(self, line: int) -> Definition | None:
        """Returns the innermost function around a line, else the innermost class or the like."""
        return next(self._around([line]))

    def calling_lines(self, name: str) -> list[int]:
        """Returns the lines that call a name, in order."""
        return sorted({line for called, line in self.calls if called == name})

    def callers(self, name: str, most: int | None = None) -> list[tuple[int, Definition | None]]:
        """Returns the lines that call a name, or the first of them, each with the function it is in."""
        lines = list(islice(self.calling_lines(name), most))
        return list(zip(lines, self._around(lines), strict=True))

    @cached_property
    def _scopes(self) -> list[tuple[int, Definition]]:
        scopes = enumerate(d for d in self.definitions if d.kind in _SCOPES)
        return sorted(scopes, key=lambda numbered: numbered[1].first_line)

    def _around(self, lines: Sequence[int]) -> Iterator[Definition | None]:
        """Yields what is around each of some ordered lines, in one pass: a file may be nothing but definitions."""
        begun: list[tuple[bool, int, int, Definition]] = []
        coming = iter(self._scopes)
        ahead = next(coming, None)
        for line in lines:
            while ahead is not None and ahead[1].first_line <= line:
                order, scope = ahead
                heappush(begun, (scope.kind != FUNCTION, scope.last_line - scope.first_line, order, scope))
                ahead = next(coming, None)
            while begun and begun[0][-1].last_line < line:
                heappop(begun)
            yield begun[0][-1] if begun else None


NO_SYMBOLS = FileSymbols((), ())


def split_symbol(symbol: str) -> tuple[str, ...]:
    """Splits a name into its parts: `a.b`, `A::b`, `A#b` and `A->b` alike; template arguments are dropped."""
    head, operator, sign = symbol.strip().partition("operator")
    if operator and not sign[:1].isalnum() and sign[:1] != "_":
        return (*_parts(head), operator + sign.strip())
    return tuple(_parts(symbol.strip().removesuffix("()")))


def extract(text: str, language: Language, timeout_s: float = PARSE_S) -> FileSymbols:
    """Parses a file; blocks, for some seconds at most: what takes longer has no symbols."""
    if INNER_RETURN.search(text):
        return _renumbered(extract(INNER_RETURN.sub("\n", text), language, timeout_s), text)
    source = text.encode()
    tree = parse(source, language.name, timeout_s)
    return NO_SYMBOLS if tree is None else _Reader(language, source).read(tree)


def _renumbered(found: FileSymbols, text: str) -> FileSymbols:
    """Returns symbols by the lines of a text, when they were read with its inner carriage returns as line feeds."""
    inner = [len(INNER_RETURN.findall(line)) for line in text.split("\n")]
    numbers = [number for number, count in enumerate(inner, start=1) for _ in range(1 + count)]
    last = len(numbers)
    definitions = (
        replace(one, first_line=numbers[one.first_line - 1], last_line=numbers[min(one.last_line, last) - 1])
        for one in found.definitions
    )
    return FileSymbols(tuple(definitions), tuple((name, numbers[line - 1]) for name, line in found.calls))


class _Reader:
    """Reads definitions and calls off a tree, keeping track of what is around."""

    def __init__(self, language: Language, source: bytes) -> None:
        self._language = language
        self._source = source
        # Depth, names so far and kind of each scope around; depth and node of each wrapper around.
        self._scopes: list[tuple[int, tuple[str, ...], str]] = []
        self._wrappers: list[tuple[int, Node]] = []
        self._definitions: list[Definition] = []
        self._calls: list[tuple[str, int]] = []

    def read(self, tree: Tree) -> FileSymbols:
        """Returns the symbols of a file."""
        for node, depth in walk(tree):
            if not node.is_named:
                continue
            while self._scopes and self._scopes[-1][0] >= depth:
                self._scopes.pop()
            while self._wrappers and self._wrappers[-1][0] >= depth:
                self._wrappers.pop()
            kind = node.type
            if kind in _WRAPPERS:
                self._wrappers.append((depth, node))
            if kind in self._language.calls:
                self._add_call(node)
            if kind in self._language.definitions:
                self._add_definition(node, depth)
        return FileSymbols(tuple(self._definitions), tuple(self._calls))

    def _add_call(self, node: Node) -> None:
        field = self._language.calls[node.type]
        called = node.child_by_field_name(field) if field else node.named_child(max(0, node.named_child_count - 1))
        while called is not None and (inner := field_of(called, _CALLEE_FIELDS)) is not None:
            called = inner
        parts = _parts(self._text(called))
        if parts and _IDENTIFIER.fullmatch(parts[-1]):
            self._calls.append((parts[-1], node.start_point.row + 1))

    def _add_definition(self, node: Node, depth: int) -> None:
        in_function = any(kind == FUNCTION for _, _, kind in self._scopes[-8:])
        kind = self._kind(node, self._language.definitions[node.type], in_function)
        parts = self._name_parts(node) if kind else ()
        if not parts or not kind:
            return
        outer = self._scopes[-1][1] if self._scopes else ()
        scope = (*outer[-16:], *self._receiver(node), *parts[:-1])
        whole = self._whole(node, depth)
        self._definitions.append(Definition(parts[-1], scope, kind, whole.start_point.row + 1, last_line(whole)))
        if kind in _SCOPES:
            self._scopes.append((depth, (*scope, parts[-1]), kind))

    def _whole(self, node: Node, depth: int) -> Node:
        """Returns the outermost wrapper that wraps this node alone."""
        whole = node
        for at, wrapper in reversed(self._wrappers):
            if at != depth - 1 or wrapper.named_child_count > _MAX_WRAPPED:
                break
            if sum(child.type == whole.type for child in wrapper.named_children) != 1:
                break
            whole, depth = wrapper, at
        return whole

    def _kind(self, node: Node, kind: str, in_function: bool) -> str | None:
        """Returns what a node defines, or None when it defines nothing that one would look up."""
        if kind == VALUE:
            return self._kind_of_value(node, in_function)
        if kind == DECLARATOR:
            return _kind_of_declarator(node, in_function)
        if kind in BODIED and node.type.endswith("_specifier") and node.child_by_field_name("body") is None:
            return None
        return None if kind == VARIABLE and in_function else kind

    def _kind_of_value(self, node: Node, in_function: bool) -> str | None:
        value = field_of(node, ("value", "right"))
        if value is not None and value.type in _FUNCTION_VALUES:
            return FUNCTION
        if value is not None and value.type == "class":
            return CLASS
        target = field_of(node, _NAME_FIELDS)
        is_variable = node.type != "pair" and target is not None and target.type not in _NAMES and not in_function
        return VARIABLE if is_variable and _IDENTIFIER.fullmatch(self._text(target)) else None

    def _name_parts(self, node: Node) -> tuple[str, ...]:
        """Returns a definition's name, with the scope that it spells out itself (`A::b`, `exports.b`)."""
        named = node
        for _ in range(16):
            inner = None if named.type in _NAMES else field_of(named, _NAME_FIELDS)
            if inner is None and named.type in ("reference_declarator", "parenthesized_declarator"):
                inner = named.named_child(0)
            if inner is None:
                break
            named = inner
        return () if named == node else split_symbol(self._text(named).strip("\"'`"))

    def _receiver(self, node: Node) -> tuple[str, ...]:
        """Returns the type that a Go method belongs to."""
        receiver = node.child_by_field_name("receiver") if node.type == "method_declaration" else None
        names = re.findall(r"\w+", self._text(receiver).partition("[")[0])
        return tuple(names[-1:])

    def _text(self, node: Node | None) -> str:
        # Not `Node.text`: after a parse through a callback that takes half a millisecond a node.
        if node is None or node.end_byte - node.start_byte > _MAX_NAME_BYTES:
            return ""
        return self._source[node.start_byte : node.end_byte].decode(errors="replace")


def _kind_of_declarator(node: Node, in_function: bool) -> str | None:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator"):
        declarator = declarator.child_by_field_name("declarator") or declarator.named_child(0)
    if declarator is None:
        return None
    if declarator.type == "function_declarator":
        return DECLARATION
    return VARIABLE if node.type == "declaration" and not in_function else None


def _parts(name: str) -> list[str]:
    while (shorter := _TEMPLATE_ARGUMENTS.sub("", name)) != name:
        name = shorter
    return [stripped for part in _SEPARATORS.split(name.lstrip("#")) if (stripped := part.strip())]
