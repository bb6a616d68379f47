"""Batches and their items, as the database has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from services.kit.identity.caller import Caller


class BatchState(StrEnum):
    """Where a batch is in its life."""

    UPLOADING = "UPLOADING"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    ENDED = "ENDED"
    CANCELLED = "CANCELLED"


class ItemState(StrEnum):
    """Where an item is in its life."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    NEEDS_REVIEW = "NEEDS_REVIEW"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    REFUSED = "REFUSED"
    SETTLED = "SETTLED"


UNDER_WAY = frozenset({BatchState.RUNNING, BatchState.CANCELLING})
OVER = frozenset({BatchState.ENDED, BatchState.CANCELLED})
ENDED_ITEMS = frozenset(ItemState) - {ItemState.PENDING, ItemState.RUNNING}
RUN_AGAIN = (ItemState.FAILED, ItemState.REFUSED, ItemState.CANCELLED)


@dataclass(frozen=True)
class BatchRecord:
    """A batch; the claims of its caller are there while it may act for them."""

    batch_id: str
    caller: Caller
    name: str
    state: BatchState
    item_count: int
    max_runs: int
    pace: int
    held_up_by: str
    ended_sequence: int
    epoch: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime
    counts: Mapping[ItemState, int] = field(default_factory=dict)


@dataclass
class BegunItem:
    """An item whose run is under way, or about to be made; its input is dropped once it is made."""

    number: int
    input: bytes
    retry_count: int
    run_id: str
    given: bytes = b""
    rule: str = ""
    truth: bool | None = None


@dataclass(frozen=True)
class ItemRecord:
    """An item; `run` is the serialized run as it ended, empty before; `given`, what it came with beside its input."""

    number: int
    key: str
    state: ItemState
    retry_count: int
    run_id: str
    run: bytes
    error: str
    ended_as: int
    given: bytes = b""
    input: bytes = b""
