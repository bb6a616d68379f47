"""The code that a prompt shows: lines by file, and syntax trees of whatever pieces of them parse."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

MAX_ATTEMPTS = 300
# Python ends a line here, whatever stands before it. As the tools and the code bank show it, or as it is.
_INNER_LINE_END = re.compile(r"<U\+000D>|\r(?!\r*\Z)")
_OPENS_BLOCK = re.compile(r"\s*(async\s+)?(def|class|if|elif|else|for|while|try|except|finally|with)\b.*:\s*$")
MAX_ENDS = 25
# What gives attributes another meaning, or reaches them as the entries of a map.
_MEANINGS = frozenset({"__dict__", "__setattr__", "__getattribute__", "__getattr__", "__delattr__", "__get__"})
_COMPARES = frozenset({"__eq__", "__ne__", "__contains__"})
_LETTERS = frozenset({"str", "bytes", "int", "float", "list", "tuple", "dict", "set", "UserString", "UserDict",
                      "UserList", "collections.UserString"})  # fmt: skip
_BODIES = frozenset({"body", "orelse", "finalbody"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class ShownFile:
    """The lines of a file that were shown, by number."""

    path: str
    lines: dict[int, str] = field(default_factory=dict)
    total_lines: int = 0

    @property
    def unread(self) -> bool:
        """Whether the file is known to have lines that were not shown."""
        return len(self.lines) < self.total_lines

    @cached_property
    def module_name(self) -> str:
        """The path as imports name it."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """The statements at the top of whatever parses, with the file's own line numbers."""
        whole = _parse(self.text(min(self.lines), max(self.lines)), min(self.lines)) if self.lines else None
        if whole is not None:
            return whole
        return [statement for first, last in self._regions() for statement in _parse_some(self, first, last)]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of every tree."""
        return [node for statement in self.statements for node in ast.walk(statement)]

    @cached_property
    def parents(self) -> Mapping[int, ast.AST]:
        """What every node stands in, by the node's identity."""
        return {id(part): node for node in self.nodes for part in ast.iter_child_nodes(node)}

    @cached_property
    def functions(self) -> list[Function]:
        """Every function, outer ones first."""
        return [node for node in self.nodes if isinstance(node, Function)]

    @cached_property
    def imports(self) -> Mapping[str, str]:
        """The full name of every name that is imported."""
        found: dict[str, set[str]] = {}
        hidden: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for name, full in _imported_names(node):
                    found.setdefault(name, set()).add(full)
                    may_be_hidden = node.lineno < self.star_line or node not in self.statements
                    if self.star_line and may_be_hidden and isinstance(node, ast.ImportFrom):
                        hidden.add(name)
        # A name that something else binds too, or two imports, may be either.
        hidden |= set(_bound_beside(self.statements))
        return {
            name: next(iter(names)) if len(names) == 1 and name not in hidden else f"?.{name}"
            for name, names in found.items()
        }

    @cached_property
    def star_line(self) -> int:
        """The last line that imports all names of a module that is not Python's own; 0 for none."""
        stars = (
            node.lineno
            for node in self.nodes
            if isinstance(node, ast.ImportFrom)
            and any(alias.name == "*" for alias in node.names)
            and (node.level or (node.module or "").partition(".")[0] not in sys.stdlib_module_names)
        )
        return max(stars, default=0)

    def full_name(self, node: ast.AST) -> str:
        """Returns the dotted name of an expression, its first part replaced by what was imported under it."""
        first, dot, rest = dotted(node).partition(".")
        return f"{self.imports.get(first, first)}{dot}{rest}"

    def class_of(self, function: Function) -> ast.ClassDef | None:
        """Returns the class that a function is a method of, when it was shown."""
        classes = (node for node in self.nodes if isinstance(node, ast.ClassDef))
        return next((one for one in classes if function in one.body), None)

    def function_at(self, line: int) -> Function | None:
        """Returns the innermost function around a line."""
        around = [one for one in self.functions if first_line(one) <= line <= (one.end_lineno or one.lineno)]
        return min(around, key=lambda one: (one.end_lineno or 0) - one.lineno, default=None)

    def function_around(self, function: Function) -> Function | None:
        """Returns the function that another is nested in."""
        around = [
            one
            for one in self.functions
            if one is not function
            and one.lineno <= function.lineno
            and (function.end_lineno or 0) <= (one.end_lineno or 0)
        ]
        return min(around, key=lambda one: (one.end_lineno or 0) - one.lineno, default=None)

    def statements_at(self, first: int, last: int) -> tuple[ast.stmt, ...]:
        """Returns the statements that lines hold any of: the innermost, and all that stand on the lines themselves."""
        around = [
            node
            for node in self.nodes
            if isinstance(node, ast.stmt) and first_line_of(node) <= last and first <= (node.end_lineno or node.lineno)
        ]
        return tuple(one for one in around if not any(_holds(one, other, first, last) for other in around))

    @cached_property
    def is_understood(self) -> bool:
        """Whether all lines that were shown parse, but for a statement that a piece of the file begins within."""
        starts = {first for first, _ in self._regions() if first > 1} if self.lines else set()
        return all(
            self.is_parsed(first, last) or (first in starts and self._ends_parsed(first, last))
            for first, last in (self._regions() if self.lines else ())
        )

    def _ends_parsed(self, first: int, last: int) -> bool:
        """Tells whether lines parse from the first statement on that does."""
        begins = [first_line_of(one) for one in self.statements if first <= first_line_of(one) <= last]
        return bool(begins) and self.is_parsed(min(begins), last)

    def is_parsed(self, first: int, last: int) -> bool:
        """Tells whether lines were understood, all of them that hold anything."""
        parsed = {
            number
            for node in self.statements
            for number in range(first_line_of(node), (node.end_lineno or node.lineno) + 1)
        }
        wanted = (number for number in range(first, last + 1) if self.lines.get(number, "").strip())
        return all(number in parsed or self.lines[number].lstrip().startswith("#") for number in wanted)

    def text(self, first: int, last: int) -> str:
        """Returns lines as one text, with blank ones where none were shown."""
        return "\n".join(self.lines.get(number, "") for number in range(first, last + 1))

    def _regions(self) -> Iterator[tuple[int, int]]:
        numbers = sorted(self.lines)
        start = previous = numbers[0]
        for number in numbers[1:]:
            if number != previous + 1:
                yield start, previous
                start = number
            previous = number
        yield start, previous


@dataclass
class Shown:
    """All files that were shown."""

    files: dict[str, ShownFile] = field(default_factory=dict)

    def add(self, path: str, lines: Mapping[int, str], *, total_lines: int = 0) -> None:
        """Adds lines of a file; `total_lines` is how many it has, when that is known."""
        file = self.files.setdefault(path, ShownFile(path))
        file.lines.update(lines)
        file.total_lines = max(file.total_lines, total_lines)

    @property
    def hides_lines(self) -> bool:
        """Whether lines of a program hold further lines, which are not parsed; also where a text only looks so."""
        return any(_INNER_LINE_END.search(line) for file in self.python for line in file.lines.values())

    def file(self, path: str) -> ShownFile | None:
        """Returns a file, or None when nothing of it was shown."""
        return self.files.get(path)

    def has(self, path: str, line: int) -> bool:
        """Tells whether a line was shown."""
        file = self.files.get(path)
        return file is not None and line in file.lines

    @cached_property
    def python(self) -> list[ShownFile]:
        """The files in Python."""
        return [file for path, file in sorted(self.files.items()) if path.endswith((".py", ".pyw", ".pyi"))]

    @cached_property
    def patched(self) -> frozenset[str]:
        """The names that anything gives another value from outside of their module, or may."""
        return frozenset(name for file in self.python for node in file.nodes for name in _patched(node))

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        """Every class."""
        return [node for file in self.python for node in file.nodes if isinstance(node, ast.ClassDef)]

    @cached_property
    def methods(self) -> frozenset[str]:
        """The names that any class gives something in its body."""
        return frozenset(name for one in self.classes for part in one.body for name in _named_in(part))

    def is_plain(self, attribute: str) -> bool:
        """Tells whether an attribute holds what it is given, and no class means something else by it."""
        return attribute not in self.methods and not self._sets_at_will

    @cached_property
    def _sets_at_will(self) -> bool:
        found = (node for file in self.python for node in file.nodes)
        return any(
            (isinstance(node, ast.Attribute) and node.attr in _MEANINGS)
            or (isinstance(node, ast.Name) and node.id == "vars")
            for node in found
        ) or bool(self.methods & _MEANINGS)

    @cached_property
    def has_own_texts(self) -> bool:
        """Whether a class makes its own of a text or a number, or says itself what it equals."""
        return any(
            _names_of(one) & _COMPARES
            or ({dotted(base) for base in one.bases} & _LETTERS and _names_of(one) - {"__init__", "__new__"})
            for one in self.classes
            if not any("Enum" in dotted(base) for base in one.bases)
        )

    @cached_property
    def functions(self) -> Mapping[str, list[tuple[ShownFile, Function]]]:
        """The functions by name."""
        found: dict[str, list[tuple[ShownFile, Function]]] = {}
        for file in self.python:
            for one in file.functions:
                found.setdefault(one.name, []).append((file, one))
        return found

    @cached_property
    def calls(self) -> Mapping[str, list[tuple[ShownFile, ast.Call]]]:
        """The calls by the bare name of what is called."""
        found: dict[str, list[tuple[ShownFile, ast.Call]]] = {}
        for file in self.python:
            for node in file.nodes:
                if isinstance(node, ast.Call):
                    found.setdefault(bare_name(node.func), []).append((file, node))
        return found


def _imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yields the names that an import binds, each with its full name."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            place = "." * node.level + (f"{node.module}." if node.module else "")
            yield alias.asname or alias.name, f"{place}{alias.name}"
        else:
            first = alias.name.partition(".")[0]
            yield alias.asname or first, alias.name if alias.asname else first


def _bound_beside(statements: Iterable[ast.AST]) -> Iterator[str]:
    """Yields the names that a module binds at its top by anything but imports."""
    for node in statements:
        if isinstance(node, Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif not isinstance(node, ast.Lambda):
            yield from _bound_beside(ast.iter_child_nodes(node))


def _named_in(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, Function):
        yield statement.name
    else:
        yield from (
            one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        )


def _names_of(owner: ast.ClassDef) -> set[str]:
    return {name for part in owner.body for name in _named_in(part)}


def first_line_of(node: ast.stmt) -> int:
    """Returns the first line of a statement, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def head_of(statement: ast.stmt) -> list[ast.AST]:
    """Returns the parts of a statement that are not statements which it holds: heads of its clauses included."""
    found: list[ast.AST] = []
    for name, field_ in ast.iter_fields(statement):
        for part in field_ if isinstance(field_, list) else [field_]:
            if isinstance(part, ast.ExceptHandler):
                found += [part.type] if part.type is not None else []
            elif isinstance(part, ast.match_case):
                found += [part.pattern, *([part.guard] if part.guard is not None else [])]
            elif isinstance(part, ast.AST) and (name not in _BODIES or isinstance(statement, ast.Expr)):
                found.append(part)
    return found


def _holds(outer: ast.stmt, inner: ast.stmt, first: int, last: int) -> bool:
    """Tells whether a statement is only around another, and nothing in a head of its own is on the lines."""
    body = getattr(outer, "body", None)
    if inner is outer or not isinstance(body, list) or not body:
        return False
    inside = any(inner is part for part in ast.walk(outer))
    return inside and first_line_of(body[0]) <= first and not _has_head_on(outer, first, last)


def _has_head_on(statement: ast.stmt, first: int, last: int) -> bool:
    parts = [part for top in head_of(statement) for part in ast.walk(top) if isinstance(part, ast.expr)]
    return any(part.lineno <= last and first <= (part.end_lineno or part.lineno) for part in parts)


def first_line(function: Function) -> int:
    """Returns the first line of a function, decorators included."""
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def dotted(node: ast.AST) -> str:
    """Returns `a.b.c` for a chain of attributes, with `()` and `[]` left out; empty for anything else."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            break
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def bare_name(node: ast.AST) -> str:
    """Returns the last name of a chain."""
    return dotted(node).rpartition(".")[2]


def _patched(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Global):
        yield from node.names
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        if dotted(node.value) not in {"self", "cls"}:
            yield node.attr
    elif isinstance(node, ast.Call) and bare_name(node.func) in {"setattr", "delattr", "patch"}:
        texts = (one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str))
        yield from (text.rpartition(".")[2] for text in texts)
    elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(key, str) and bare_name(node.value) in {"globals", "locals", "vars", "__dict__"}:
            yield key


def _parse(text: str, first: int) -> list[ast.stmt] | None:
    whole = textwrap.dedent(text)
    # What parses as it stands is not touched: a line may look like the head of a block, and be none.
    for attempt in (whole, _with_bodies(whole)):
        try:
            tree = ast.parse(attempt)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        ast.increment_lineno(tree, first - 1)
        return tree.body
    return None


def _parse_some(file: ShownFile, first: int, last: int) -> list[ast.stmt]:
    """Parses the pieces of a region that parse, the longest from each line on."""
    found: list[ast.stmt] = []
    start, attempts = first, 0
    while start <= last and attempts < MAX_ATTEMPTS:
        for end in _ends(file, start, last):
            attempts += 1
            if body := _parse(file.text(start, end), start):
                found += body
                start = end
                break
        start += 1
    return found


def _ends(file: ShownFile, start: int, last: int) -> list[int]:
    """Returns where a piece may end that begins at a line: before a line that is indented no deeper, or at the last."""
    margin = _indent(file.lines.get(start, ""))
    starts = [
        n for n in range(start + 1, last + 1) if file.lines.get(n, "").strip() and _indent(file.lines[n]) <= margin
    ]
    return [last, *(number - 1 for number in reversed(starts))][:MAX_ENDS]


def _with_bodies(text: str) -> str:
    """Gives a body to what has none, because it was a docstring or was not shown."""
    lines = text.split("\n")
    following = ""
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if _OPENS_BLOCK.match(line) and (not following or _indent(following) <= _indent(line)):
            lines[number] = f"{line} ..."
        following = line if line.strip() else following
    return "\n".join(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
