"""Names that lines define, in languages with braces."""

from __future__ import annotations

import pytest

from services.evaluator.blocks import defined_name
from services.evaluator.languages import Family


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
