"""The token that a command asks the gateway with, however long it takes."""

from __future__ import annotations

import time
from itertools import count

import pytest

from services.cli.connection import token_source
from services.cli.errors import not_running

FIRST = "first"


def test_a_token_is_made_anew_in_time() -> None:
    numbers = count(1)

    def again() -> str:
        return f"token-{next(numbers)}"

    young = token_source(FIRST, again)
    assert [young(), young()] == ["first", "first"]
    old = token_source(FIRST, again, renew_after_s=-1)
    assert [old(), old()] == ["token-1", "token-2"]


def test_a_token_is_made_anew_after_a_night_with_the_lid_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    for elapsed_s, token in ((-3600.0, "second"), (10_000.0, "second")):
        source = token_source(FIRST, lambda: "second")
        begun = time.time()
        with monkeypatch.context() as clock:
            # What the machine's other clock counts has not gone on.
            clock.setattr(time, "time", lambda begun=begun, elapsed_s=elapsed_s: begun + elapsed_s)
            assert source() == token


def test_where_no_other_is_to_be_had_the_old_one_stays() -> None:
    def gone() -> str:
        raise not_running()

    assert token_source(FIRST, gone, renew_after_s=-1)() == "first"
