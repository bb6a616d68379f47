"""A query that a model writes down, and does not hand to its tool."""

from __future__ import annotations

import time

import pytest

from services.runtime.agents.data_chat.nodes import _QUERY


@pytest.mark.parametrize(
    "text", ["SELECT 1 FROM t", "Look:\n\n  select name\nfrom device\n", "So:\n```sql\nSELECT 1\n```"]
)
def test_a_query_is_found_on_a_line_of_its_own(text: str) -> None:
    assert _QUERY.search(text)


def test_empty_lines_are_read_once() -> None:
    start = time.process_time()
    assert not _QUERY.search("a" + "\n" * 20_000 + "b")
    assert time.process_time() - start < 1
