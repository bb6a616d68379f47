"""A run, as its agent gets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.kit.identity.caller import Caller


@dataclass(frozen=True)
class Assignment:
    """A run, as its agent gets it: the input, and what the thread said before. All protos are serialized."""

    run_id: str
    correlation_id: str
    caller: Caller
    input: bytes
    turns: Sequence[tuple[bytes, bytes]]
