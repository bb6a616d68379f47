"""What counts as a quote of code."""

from __future__ import annotations

import pytest

from services.kit.text.quotes import is_quoted


@pytest.mark.parametrize(
    ("quote", "code", "holds"),
    [
        ("f(x)", "y = f(x)", True),
        ("a\n  b", "a b", True),
        ("g(x)", "y = f(x)", False),
        ("", "", True),
        ("é", "e", False),
        ("café", "caf\N{REPLACEMENT CHARACTER}", True),
        ("caf\N{REPLACEMENT CHARACTER}", "caf\N{REPLACEMENT CHARACTER}", True),
        ("运行 x", "\N{REPLACEMENT CHARACTER}" * 4 + " x", True),
        ("cafe", "caf\N{REPLACEMENT CHARACTER}", False),
        ("café", "café \N{REPLACEMENT CHARACTER}", True),
        ("a\0b", "a\N{REPLACEMENT CHARACTER}b", True),
        ("ab\N{NO-BREAK SPACE}c", "ab\N{REPLACEMENT CHARACTER}c", True),
    ],
)
def test_a_quote(quote: str, code: str, holds: bool) -> None:
    assert is_quoted(quote, code) is holds
