"""What a model's tokens cost: a setting."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from pydantic import ConfigDict

TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True)
class ModelPrice:
    """The price of a million tokens, in the currency of all prices; `cached` is `input` where it is not given."""

    # What is misspelt in a setting is refused, and not passed over.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        """Raises ValueError when a price is negative, or no number."""
        if not all(isfinite(price) and price >= 0 for price in (self.input, self.output, self.cached or 0.0)):
            raise ValueError("a price is a number that is not negative")

    def cost(self, given: int, made: int, cached: int = 0) -> float:
        """Returns what tokens cost; `cached` are among those that were given."""
        cached_price = self.input if self.cached is None else self.cached
        return ((given - cached) * self.input + cached * cached_price + made * self.output) / TOKENS_PER_PRICE
