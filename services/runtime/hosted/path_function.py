"""How a path function came to its result: the tests that it came to, and the `return` that it left by.

The source is read once; then a tracer notes the instructions of that one frame, in the thread that runs it, whose
places in the source the code itself has. A function that runs asynchronously shares its thread with others, and is not
traced.
"""

from __future__ import annotations

import ast
import dis
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import CodeType, FrameType
from typing import Any, Final

LONGEST_TEXT: Final = 200
LAMBDA: Final = "<lambda>"
# Of the tests that one call came to: a loop comes to the same one often.
MOST_TESTS: Final = 50
MOST_INSTRUCTIONS: Final = 5_000
# Among the instructions: one has raised, or others were not noted.
_GAP: Final = -1
_FOR_ITER: Final = dis.opmap["FOR_ITER"]
_Place = tuple[int, int]
_Span = tuple[_Place, _Place]
_Tree = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, eq=False)
class _Test:
    text: str
    line: int
    span: _Span
    body: _Span


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
        unwrapped = inspect.unwrap(unwrapped) if unwrapped is not None else None
        self._code: CodeType | None = getattr(unwrapped, "__code__", None)

    @property
    def file(self) -> str:
        """The file that it is in; empty where that is not known."""
        return self._code.co_filename if self._code else ""

    @property
    def line(self) -> int:
        """The line that it begins at; 0 where that is not known."""
        return self._code.co_firstlineno if self._code else 0

    @contextmanager
    def followed(self, instructions: list[int]) -> Iterator[None]:
        """Notes the instructions that a call inside the context comes to; none where a debugger is at work."""
        if self._code is None or sys.gettrace() is not None:
            yield
            return
        code = self._code
        begun = False

        def of_frame(frame: FrameType, event: str, _argument: object) -> Any:
            if event == "exception":
                # Or a loop has come to its end.
                if code.co_code[frame.f_lasti] != _FOR_ITER:
                    instructions.append(_GAP)
            elif event in ("opcode", "return"):
                instructions.append(frame.f_lasti)
            if frame.f_trace_opcodes and len(instructions) >= MOST_INSTRUCTIONS:
                frame.f_trace_opcodes = False
                instructions.append(_GAP)
            return of_frame

        def of_call(frame: FrameType, _event: str, _argument: object) -> Any:
            nonlocal begun
            if begun or frame.f_code is not code:
                return None
            begun = frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            return of_frame

        sys.settrace(of_call)
        try:
            yield
        finally:
            sys.settrace(None)

    def way(self, instructions: list[int]) -> Way:
        """Returns the way that led through these instructions to a result."""
        way = Way(self._tests_of(instructions)[:MOST_TESTS])
        for instruction in reversed(instructions):
            if span := self._spans.get(instruction):
                for line, statement, text in self._returns:
                    if _is_inside(span, statement):
                        way.returned_at, way.returned = line, text
                        return way
        return way

    def _tests_of(self, instructions: Iterable[int]) -> list[Test]:
        """Returns the tests that were come to: one held if what is next outside of it is in its body."""
        came_to: list[_Test] = []
        held: dict[int, bool] = {}
        # Of those that are not decided yet, their numbers among all.
        open_tests: dict[_Test, int] = {}
        for instruction in instructions:
            if instruction == _GAP:
                open_tests.clear()
                continue
            span = self._spans.get(instruction)
            for test, number in list(open_tests.items()):
                if span and not _is_inside(span, test.span) and not _is_inside(test.span, span):
                    held[number] = _is_inside(span, test.body)
                    del open_tests[test]
            for test in self._tests_at.get(instruction, ()):
                if test not in open_tests:
                    open_tests[test] = len(came_to)
                    came_to.append(test)
        # What ends with its test leaves by no `return`.
        held.update(dict.fromkeys(open_tests.values(), False))
        return [Test(test.text, test.line, held[number]) for number, test in enumerate(came_to) if number in held]

    @cached_property
    def tree(self) -> _Tree | None:
        """The function's own tree, its places those of its file; None where there is no source."""
        if self._code is None:
            return None
        try:
            lines, _ = inspect.findsource(self._code)
            module = _parsed("".join(lines))
        except (OSError, TypeError, SyntaxError, IndentationError):
            return None
        if self._code.co_name == LAMBDA:
            return self._lambda_of(module)
        for node in ast.walk(module):
            match node:
                case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                    if (name, _first_line(node)) == (self._code.co_name, self.line):
                        return node
        return None

    def _lambda_of(self, module: ast.Module) -> ast.Lambda | None:
        """Returns the smallest one that all of its code is from: it is no statement, and others may be on its line."""
        places = [span for span in self._spans.values() if (span[0][1], span[1][1]) != (0, 0)]
        found = [
            each
            for each in ast.walk(module)
            if isinstance(each, ast.Lambda)
            and each.lineno <= self.line <= (each.end_lineno or 0)
            and all(_is_inside(place, _span(each.body)) for place in places)
        ]
        # Of those one inside of another: the innermost comes last.
        return found[-1] if found and places else None

    @cached_property
    def _spans(self) -> dict[int, _Span]:
        """Where in the source instructions are from, by offset, of those that the code says it of."""
        positions = self._code.co_positions() if self._code else ()
        return {
            2 * number: ((line, column), (last, end))
            for number, (line, last, column, end) in enumerate(positions)
            if line and last and column is not None and end is not None
        }

    @cached_property
    def _tests_at(self) -> dict[int, list[_Test]]:
        """The tests that an instruction is part of; those left out whose body has no instruction."""
        spans = self._spans.values()
        tests = [
            test
            for node in _own_nodes(self.tree)
            for test in _tests_in(node)
            if any(_is_inside(span, test.body) for span in spans)
        ]
        return {offset: [test for test in tests if _is_inside(span, test.span)] for offset, span in self._spans.items()}

    @cached_property
    def _returns(self) -> list[tuple[int, _Span, str]]:
        if isinstance(self.tree, ast.Lambda):
            return [(self.tree.lineno, _span(self.tree.body), _shown(self.tree.body))]
        return [
            (node.lineno, _span(node), _shown(node.value))
            for node in _own_nodes(self.tree)
            if isinstance(node, ast.Return) and node.value is not None
        ]


def _tests_in(node: ast.AST) -> Iterator[_Test]:
    """Yields the tests that a statement or an expression makes; a pattern that takes anything tests nothing."""
    match node:
        case ast.If(test, body) | ast.While(test, body):
            yield _Test(_shown(test), test.lineno, _span(test), _body(body))
        case ast.IfExp(test, body):
            yield _Test(_shown(test), test.lineno, _span(test), _span(body))
        case ast.Match(subject, cases):
            for each in cases:
                first, last = each.pattern, each.guard or each.pattern
                if each.guard is None and isinstance(first, ast.MatchAs) and first.pattern is None:
                    continue
                guard = f" if {ast.unparse(each.guard)}" if each.guard else ""
                text = _cut(f"match {ast.unparse(subject)}: case {ast.unparse(first)}{guard}")
                yield _Test(text, first.lineno, (_span(first)[0], _span(last)[1]), _body(each.body))


def _first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min(each.lineno for each in (function, *function.decorator_list))


@lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _span(node: ast.expr | ast.stmt | ast.pattern) -> _Span:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _body(statements: list[ast.stmt]) -> _Span:
    return _span(statements[0])[0], _span(statements[-1])[1]


def _is_inside(inner: _Span, outer: _Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _own_nodes(tree: ast.AST | None) -> Iterator[ast.AST]:
    """Yields what is in a function, but not in functions inside of it."""
    waiting = list(ast.iter_child_nodes(tree)) if tree is not None else []
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def _shown(node: ast.AST) -> str:
    return _cut(ast.unparse(node))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
