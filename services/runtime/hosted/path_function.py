"""How a path function came to its result: the tests that it came to, and the `return` that it left by.

The source is read once; then a tracer notes the lines of that one frame, in the thread that runs it. A function that
runs asynchronously shares its thread with others, and is not traced.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType, FrameType
from typing import Any, Final

LONGEST_TEXT: Final = 200
LAMBDA: Final = "<lambda>"
# Of the tests that one call came to: a loop comes to the same one often.
MOST_TESTS: Final = 50


@dataclass(frozen=True)
class _Test:
    text: str
    lines: range
    body: range


@dataclass(frozen=True)
class Test:
    """A test that was come to, and whether it held."""

    test: str
    line: int
    held: bool


@dataclass
class Way:
    """The way through a function: its tests in order, and where it returned; 0 where that is not known."""

    tests: list[Test] = field(default_factory=list)
    returned_at: int = 0
    returned: str = ""


class PathFunction:
    """The source of a path function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        unwrapped: Any = inspect.unwrap(function)
        if not hasattr(unwrapped, "__code__"):
            # A partial, or an object that is called.
            unwrapped = getattr(unwrapped, "func", None) or vars(type(unwrapped)).get("__call__")
        self._function = inspect.unwrap(unwrapped) if unwrapped is not None else None
        self._code: CodeType | None = getattr(self._function, "__code__", None)

    @property
    def file(self) -> str:
        """The file that it is in; empty where that is not known."""
        return self._code.co_filename if self._code else ""

    @property
    def line(self) -> int:
        """The line that it begins at; 0 where that is not known."""
        return self._code.co_firstlineno if self._code else 0

    @contextmanager
    def followed(self, lines: list[int]) -> Iterator[None]:
        """Notes the lines that its frame comes to, of a call inside the context; none where a debugger is at work."""
        if self._code is None or sys.gettrace() is not None:
            yield
            return
        code = self._code

        def of_frame(_frame: FrameType, event: str, _argument: object) -> Any:
            if event == "line" and len(lines) < MOST_TESTS * 10:
                lines.append(_frame.f_lineno)
            return of_frame

        def of_call(frame: FrameType, _event: str, _argument: object) -> Any:
            return of_frame if frame.f_code is code else None

        sys.settrace(of_call)
        try:
            yield
        finally:
            sys.settrace(None)

    def way(self, lines: list[int], result: Any) -> Way:
        """Returns the way that led through these lines to a result."""
        way = Way()
        for line, following in zip(lines, [*lines[1:], 0], strict=True):
            for test in self._tests:
                if line == test.lines.start and len(way.tests) < MOST_TESTS:
                    way.tests.append(Test(test.text, line, following in test.body))
        for first, last, value, text in self._returns:
            if lines and first <= lines[-1] <= last:
                way.returned_at, way.returned = lines[-1], text
                way.tests += _choices(value, first, result)
        return way

    @cached_property
    def tree(self) -> ast.AST | None:
        """The function's own tree, its lines those of its file; None where there is no source."""
        if self._name == LAMBDA:
            return self._lambda
        try:
            lines, first = inspect.getsourcelines(self._function)  # type: ignore[arg-type]
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError, IndentationError):
            return None
        ast.increment_lineno(tree, first - 1)
        return _first_function(tree, self._name)

    @property
    def _name(self) -> str:
        return self._code.co_name if self._code else ""

    @cached_property
    def _lambda(self) -> ast.AST | None:
        """The smallest one that all of its code is from: it is no statement, and others may be on its line."""
        try:
            tree = ast.parse("".join(linecache.getlines(self.file)))
        except SyntaxError:
            return None
        places = [
            ((line, column), (last, end))
            for line, last, column, end in (self._code.co_positions() if self._code else ())
            if line and last and column is not None and end is not None and (column, end) != (0, 0)
        ]
        found = [
            each
            for each in ast.walk(tree)
            if isinstance(each, ast.Lambda)
            and each.lineno <= self.line <= (each.end_lineno or 0)
            and all(_span(each.body)[0] <= first and last <= _span(each.body)[1] for first, last in places)
        ]
        # Of those one inside of another: the innermost comes last.
        return found[-1] if found and places else None

    @cached_property
    def _tests(self) -> list[_Test]:
        found = []
        for node in _own_nodes(self.tree):
            if isinstance(node, ast.If | ast.While):
                body = range(node.body[0].lineno, (node.body[-1].end_lineno or node.body[-1].lineno) + 1)
                found.append(_Test(_shown(node.test), range(node.test.lineno, body.start), body))
        return found

    @cached_property
    def _returns(self) -> list[tuple[int, int, ast.expr, str]]:
        if isinstance(self.tree, ast.Lambda):
            body = self.tree.body
            return [(self.tree.lineno, body.end_lineno or body.lineno, body, _shown(body))]
        return [
            (node.lineno, node.end_lineno or node.lineno, node.value, _shown(node.value))
            for node in _own_nodes(self.tree)
            if isinstance(node, ast.Return) and node.value is not None
        ]


def _span(node: ast.expr) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _first_function(tree: ast.AST, name: str) -> ast.AST | None:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return next((each for each in found if each.name == name), None)


def _own_nodes(tree: ast.AST | None) -> Iterator[ast.AST]:
    """Yields what is in a function, but not in functions inside of it."""
    waiting = list(ast.iter_child_nodes(tree)) if tree is not None else []
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def _choices(value: ast.expr, line: int, result: Any) -> list[Test]:
    """Returns the tests of `a if test else b` whose outcome the result tells, as both ways are constants."""
    tests = []
    while isinstance(value, ast.IfExp):
        yes, no = _constants(value.body), _constants(value.orelse)
        if yes is None or (no is None and not isinstance(value.orelse, ast.IfExp)):
            break
        held = _plain(result) == yes[0]
        if held and no is not None and yes[0] == no[0]:
            break
        tests.append(Test(_shown(value.test), value.test.lineno or line, held))
        if held:
            break
        value = value.orelse
    return tests


def _constants(value: ast.expr) -> tuple[Any] | None:
    """Returns the value of an expression that is one by itself; LangGraph's END and START are known by their names."""
    if isinstance(value, ast.Name) and value.id in ("END", "START"):
        return (f"__{value.id.lower()}__",)
    try:
        return (_plain(ast.literal_eval(value)),)
    except ValueError:
        return None


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
