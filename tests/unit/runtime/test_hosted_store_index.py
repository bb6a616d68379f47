"""What embeds texts for the store of hosted graphs gives numbers that the database holds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import pytest
from langgraph.store.base import ensure_embeddings

from services.runtime.errors import StoreRefused
from services.runtime.hosted.store_index import StoreIndex


def not_noted(_name: str, _texts: Sequence[str]) -> nullcontext[None]:
    """What notes no call."""
    return nullcontext()


def index_of(*numbers: float) -> StoreIndex:
    """What embeds every text as these numbers."""

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [list(numbers) for _ in texts]

    return StoreIndex("./words.py:embed", ensure_embeddings(embed), len(numbers), ("text",))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e39])
@pytest.mark.parametrize("given", [(("x",), ()), ((), ("x",))])
async def test_numbers_that_the_database_does_not_hold_are_refused(
    number: float, given: tuple[list[str], list[str]]
) -> None:
    index = index_of(1.0, number)
    with pytest.raises(StoreRefused, match=r"words\.py:embed gave a vector with numbers that are none"):
        index.embedded(*given, not_noted)
    with pytest.raises(StoreRefused, match="too large for 32 bits"):
        await index.aembedded(*given, not_noted)


def test_others_are_rounded_as_the_database_has_them() -> None:
    vectors = index_of(1.0, 1e-50, 1e-40, 3.4e38).embedded(["x"], ["x"], not_noted)
    assert vectors.texts["x"] == vectors.queries["x"] == pytest.approx([1.0, 0.0, 1e-40, 3.4e38], rel=1e-5, abs=0)
    assert vectors.texts["x"][1] == 0.0
