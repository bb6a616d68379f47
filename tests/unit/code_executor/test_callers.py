"""What is around a line and who calls a name: right for every file, at a cost that stays in proportion."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.code_executor.languages import CLASS, FUNCTION, VARIABLE
from services.code_executor.symbols import Definition, FileSymbols
from tests.fixtures.steps import steps

LINES = 30


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    first, last = sorted(draw(st.tuples(*[st.integers(1, LINES)] * 2)))
    return Definition("f", (), draw(st.sampled_from([FUNCTION, CLASS, "namespace", VARIABLE])), first, last)


def _size(definition: Definition) -> int:
    return definition.last_line - definition.first_line


@given(st.lists(definitions(), max_size=12))
def test_the_innermost_function_is_around_a_line_or_else_the_innermost_scope(given_ones: list[Definition]) -> None:
    symbols = FileSymbols(tuple(given_ones), tuple(("f", line) for line in range(LINES, 0, -1)))
    for line, found in symbols.callers("f"):
        around = [d for d in given_ones if d.first_line <= line <= d.last_line and d.kind != VARIABLE]
        functions = [d for d in around if d.kind == FUNCTION]
        assert found == min(functions or around, key=_size, default=None)
        assert found == symbols.enclosing(line)


def test_callers_may_be_the_first_ones_only() -> None:
    symbols = FileSymbols((), (("f", 3), ("g", 2), ("f", 1), ("f", 3), ("f", 2)))
    assert symbols.calling_lines("f") == [1, 2, 3]
    assert symbols.callers("f", 2) == [(1, None), (2, None)]
    assert symbols.callers("f", 0) == []


def test_in_a_file_twice_as_long_callers_are_twice_the_work() -> None:
    def one_a_line(count: int) -> FileSymbols:
        lines = range(1, count + 1)
        return FileSymbols(
            tuple(Definition("f", (), FUNCTION, line, line) for line in lines), tuple(("f", line) for line in lines)
        )

    few, many = one_a_line(500), one_a_line(1000)
    assert steps(lambda: many.callers("f")) < 3 * steps(lambda: few.callers("f"))
