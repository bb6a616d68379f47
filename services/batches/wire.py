"""Batches and items as messages."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import batches_pb2, caller_pb2, runs_pb2

from services.batches.records import OVER, BatchRecord, ItemRecord, ItemState
from services.kit.identity.caller import Caller
from services.kit.telemetry.names import ROLE_OPERATOR


def batch_proto(batch: BatchRecord) -> batches_pb2.Batch:
    """Returns a batch as its callers see it."""
    counts = [
        batches_pb2.BatchItemCount(state=_item_state(state), count=count)
        for state, count in sorted(batch.counts.items(), key=lambda pair: _item_state(pair[0]))
        if count
    ]
    return batches_pb2.Batch(
        batch_id=batch.batch_id,
        name=batch.name,
        caller=caller_pb2.Caller(subject=batch.caller.subject, roles=sorted(batch.caller.roles)),
        state=f"BATCH_STATE_{batch.state.value}",
        item_count=batch.item_count,
        counts=counts,
        max_runs=batch.max_runs,
        pace=0 if batch.state in OVER else batch.pace,
        held_up_by=batch.held_up_by,
        create_time=_moment(batch.created_at),
        start_time=_moment(batch.started_at),
        end_time=_moment(batch.ended_at),
        expire_time=_moment(batch.expires_at),
    )


def item_proto(item: ItemRecord, caller: Caller, *, with_run: bool) -> batches_pb2.BatchItem:
    """Returns an item, with its run where that is asked for, as a caller may see that."""
    given = batches_pb2.NewBatchItem.FromString(item.given)
    return batches_pb2.BatchItem(
        number=item.number,
        key=item.key,
        state=_item_state(item.state),
        run_id=item.run_id,
        error=item.error,
        retry_count=item.retry_count,
        run=_run_of(item, caller) if with_run and item.run else None,
        settled_by=given.settled.by,
        truth=given.truth,
        input=runs_pb2.RunInput.FromString(item.input) if item.input else None,
    )


def _run_of(item: ItemRecord, caller: Caller) -> runs_pb2.Run:
    """Returns the run of an item as it ended; with its output where a caller has every role that it was made with.

    Runs of one batch may have been made with other roles each, as its caller's were when an item was begun anew.
    """
    run = runs_pb2.Run.FromString(item.run)
    # Who added an answer knew it.
    may_see = item.state is ItemState.SETTLED or (run.HasField("caller") and caller.roles.issuperset(run.caller.roles))
    if not (may_see or ROLE_OPERATOR in caller.roles):
        run.ClearField("output")
    return run


def _item_state(state: ItemState) -> batches_pb2.BatchItemState:
    return cast(batches_pb2.BatchItemState, batches_pb2.BatchItemState.Value(f"BATCH_ITEM_STATE_{state.value}"))


def _moment(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp
