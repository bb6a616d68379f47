"""What a node knows of the run it works for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.kit.identity import Caller


@dataclass(frozen=True)
class RunContext:
    """A claimed run: its caller, its epoch, and the token that its calls carry."""

    run_id: str
    correlation_id: str
    caller: Caller
    epoch: int
    token: Callable[[], str]


@dataclass(frozen=True)
class NodeContext:
    """The run, and the checkpoint that a node started from."""

    run: RunContext
    checkpoint_id: str
