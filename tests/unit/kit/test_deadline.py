"""What is left of a served call's deadline bounds the calls made on its behalf."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from services.kit.wire import deadline


@pytest.fixture(autouse=True)
def no_deadline() -> Iterator[None]:
    deadline.set_remaining(None)
    yield
    deadline.set_remaining(None)


def test_without_a_deadline_a_call_has_its_own_timeout() -> None:
    assert deadline.remaining() is None
    assert deadline.remaining(3) == 3


def test_the_sooner_end_counts() -> None:
    deadline.set_remaining(5000)
    assert deadline.remaining(3) == 3
    assert 3 < (deadline.remaining() or 0) <= 5000
    assert 3 < (deadline.remaining(86_400) or 0) <= 5000


def test_what_is_over_is_zero_and_not_less() -> None:
    deadline.set_remaining(-5)
    assert deadline.remaining(3) == 0


async def test_calls_served_at_once_have_deadlines_of_their_own() -> None:
    async def serve(seconds: float) -> float | None:
        deadline.set_remaining(seconds)
        await asyncio.sleep(0)
        return deadline.remaining()

    short, long = await asyncio.gather(serve(10), serve(1000))
    assert short is not None
    assert long is not None
    assert short <= 10 < 900 < long
    assert deadline.remaining() is None
