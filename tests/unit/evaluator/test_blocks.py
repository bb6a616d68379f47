"""Definitions among the lines that were read."""

from __future__ import annotations

from signalbox.v1 import code_reading_pb2

from services.evaluator.blocks import MAX_NESTED, blocks_of
from tests.unit.evaluator.cases import bank, fragment


def test_a_definition_has_the_names_of_its_lines_that_were_read() -> None:
    text = "def a(x):\n    b(x)\n    c\n\n\ndef d():\n    e\n"
    whole = bank(fragment("a.py", text)).file("a.py")
    assert whole
    assert [(block.name, block.first_line, block.last_line) for block in blocks_of(whole)] == [("a", 1, 3), ("d", 6, 7)]
    assert [sorted(block.uses) for block in blocks_of(whole)] == [["b", "c", "x"], ["e"]]
    reading = code_reading_pb2.CodeReading(
        lines=[code_reading_pb2.LineReading(names=["y"])],
        definitions=[code_reading_pb2.CodeDefinition(name="a", first_line=1, last_line=9)],
    )
    part = bank(fragment("b.py", "y\n", 5, total_lines=9, reading=reading)).file("b.py")
    assert part
    assert [(block.name, block.last_line, *block.uses) for block in blocks_of(part)] == [("a", 9, "y")]


def test_no_line_is_in_more_than_so_many_definitions() -> None:
    count = MAX_NESTED + 6
    reading = code_reading_pb2.CodeReading(
        lines=[code_reading_pb2.LineReading()] * count,
        definitions=[
            code_reading_pb2.CodeDefinition(name="a", first_line=number, last_line=count)
            for number in range(1, count + 1)
        ],
    )
    file = bank(fragment("a.py", "\n".join("a" * count), reading=reading)).file("a.py")
    assert file
    assert len(blocks_of(file)) == MAX_NESTED
