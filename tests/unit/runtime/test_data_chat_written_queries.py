"""A query that a model writes down, and does not hand to its tool."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.runtime.agents.data_chat.nodes import _QUERY
from tests.fixtures.growth import growth


@pytest.mark.parametrize(
    "text", ["SELECT 1 FROM t", "Look:\n\n  select name\nfrom device\n", "So:\n```sql\nSELECT 1\n```"]
)
def test_a_query_is_found_on_a_line_of_its_own(text: str) -> None:
    assert _QUERY.search(text)


def test_empty_lines_are_read_once() -> None:
    def prepare(count: int) -> Callable[[], object]:
        text = "a" + "\n" * count + "b"
        return lambda: _QUERY.search(text)

    assert prepare(10)() is None
    assert growth(prepare, 5_000, 20_000) < 9
