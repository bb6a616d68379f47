"""What a model's tokens cost: a setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict


@dataclass(frozen=True)
class ModelPrice:
    """The price of a million tokens, in whatever currency all prices are in."""

    # What is misspelt in a setting is refused, and not passed over.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    input: float
    output: float

    def __post_init__(self) -> None:
        """Raises ValueError when a price is negative."""
        if min(self.input, self.output) < 0:
            raise ValueError("a price can't be negative")
