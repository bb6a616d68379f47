"""Names that lines define, in languages with braces."""

from __future__ import annotations

import pytest

from services.evaluator.blocks import MAX_NESTED, blocks_of, defined_name
from services.evaluator.languages import Family
from tests.unit.evaluator.cases import bank, fragment


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("int main(int argc) {", "main"), ("  std::string Shop::find(", "find"), ("Shop::~Shop() {", "Shop"),
        ("const find = async (name) => {", "find"), ("find: function (name) {", "find"), ("$find = x => x", "$find"),
        ("func (s *Shop) Find(name string) {", "Find"), ("class Shop {", "Shop"),
        ("find(name);", ""), ("if (name) {", ""), ("return find(", ""), ("x = find(name)", ""), ("9(", ""), ("", ""),
    ],
)  # fmt: skip
def test_a_definition_s_name(line: str, name: str) -> None:
    assert defined_name(line, Family.BRACES) == name


@pytest.mark.parametrize(
    "line", ["a" * 100_000, "function" * 10_000 + "(", "a::" * 30_000, "a " * 50_000, "a=" * 50_000]
)
def test_a_line_that_was_written_to_be_long_to_read_is_read(line: str) -> None:
    assert len(defined_name(line, Family.BRACES)) <= len(line)


EXTENTS = [
    ("a.py", "def a():\n    b\n\n    def c():\n        d\n)\n\ne\n", {"a": (1, 6), "c": (4, 6)}),
    ("a.py", "def a():\n    b\n\n", {"a": (1, 2)}),
    ("a.rb", "def a\n  b\nend\nc\n", {"a": (1, 3)}),
    ("a.js", "function a() {\n  function b() {\n  }\n}\nc();\n", {"a": (1, 4), "b": (2, 3)}),
    ("a.js", "function a(\n) { function b() {} }\n", {"a": (1, 2), "b": (2, 2)}),
    ("a.js", "} function a() {\n  b\n", {"a": (1, 1)}),
    ("a.js", "function a() {\n  b\n", {"a": (1, 3)}),
    ("a.c", "int a(int b);\nint c(int d)\n{\n}\n", {"c": (2, 4)}),
]


@pytest.mark.parametrize(("path", "text", "blocks"), EXTENTS)
def test_a_definition_reaches_to_its_end(path: str, text: str, blocks: dict[str, tuple[int, int]]) -> None:
    file = bank(fragment(path, text + "\n")).file(path)
    assert file
    assert {block.name: (block.first_line, block.last_line) for block in blocks_of(file)} == blocks


@pytest.mark.parametrize("path", ["a.py", "a.js"])
def test_no_line_is_in_more_than_so_many_definitions(path: str) -> None:
    lines = [f"{' ' * depth}class a: {{" for depth in range(22)]
    file = bank(fragment(path, "\n".join(lines)), fragment("b.py", "b\n")).file(path)
    assert file
    assert len(blocks_of(file)) == MAX_NESTED
