"""The checkpointer: LangGraph's contract, one statement a step, fenced by the run's claim, with the ledger inside.

It extends langgraph-checkpoint-postgres, and differs from it in four ways (docs/adr/0004-own-checkpoint-schema.md): a
step stores what it changed; a step's writes, checkpoint, decisions and events are one statement; that statement writes
nothing when the claim is lost; and nothing is serialised on a lock.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import orjson
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from services.kit.telemetry.logs import get_logger
from services.runtime.calls.recording import AnswerRecording
from services.runtime.engine.changes import Stored, marked, pack_changes, pack_writes
from services.runtime.engine.checkpoint_rows import (
    INPUT_COLUMNS,
    NO_WRITES,
    WriteRow,
    pack_body,
    size,
    split,
    write_columns,
)
from services.runtime.engine.claim import Claim, StepWritten, step_rows
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.queries import RUN_COLUMNS, query
from services.runtime.engine.records import Ending, RunRecord
from services.runtime.engine.stored_items import StoreScope, put_items
from services.runtime.errors import ClaimLost, DatabaseAway
from services.runtime.metrics import CHECKPOINT_BYTES
from services.runtime.routing.recorder import ItemWrite, LeadingDecision, StepRecord, last_decision
from services.runtime.routing.state import STEPS, Spend, add_spend, spend_of

log = get_logger()
_NO_SPEND = dict.fromkeys(("model_calls", "tool_calls", "input_tokens", "output_tokens", "wall_time_s"))
# A task's writes wait this long for their step's checkpoint, to share its transaction. A task whose siblings are slow
# is written ahead of them. Longer than a busy event loop takes to come round: a step of one task needs no second one.
WRITES_WAIT_S = 0.5
SPEND = "spend"
LED_BY = "led_by"
# At which step of the graph LangGraph ends it, for whoever continues from the checkpoint.
STOP = "stop"


class HeldStep(NamedTuple):
    """A step of a claimed run that is not written yet: its records, and what its statement takes."""

    claim: Claim
    steps: list[StepRecord]
    parameters: dict[str, Any]


class StateTooLargeError(ValueError):
    """A step changes more of its run's state than the run's limits allow."""


class RunSaver(AsyncPostgresSaver):
    """Saves checkpoints; with a claim, those of one run, and only while the claim holds.

    From AsyncPostgresSaver it has the pool, the versions' contract and the blocking twins of its methods; the layout of
    the tables, and so every statement, is its own.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        serde: SerializerProtocol,
        *,
        claim: Claim | None = None,
        recording: AnswerRecording | None = None,
        steps_channel: str = STEPS,
        spent: Spend | None = None,
        max_step_bytes: int | None = None,
        store: StoreScope | None = None,
        mark: Callable[[Any], Any] | None = None,
        take_called: Callable[[], list[dict[str, Any]]] | None = None,
    ) -> None:
        """`spent` is what a claimed run has spent, where its state does not say so: steps are added to it.

        More than `max_step_bytes` of a checkpoint, or of a task's writes, raises StateTooLargeError. `store` is where
        what its nodes keep is written to. By `mark` items of lists and maps are told apart that nodes change in place.
        `take_called` returns what callbacks have told and no event has.
        """
        super().__init__(pool, serde=serde)
        self._steps_channel = steps_channel
        self._spent = spent
        self._max_step_bytes = max_step_bytes
        self._store = store
        self._mark = mark
        self._take_called = take_called
        self._pool = pool
        self._claim = claim
        self.recording = recording
        self._stored: dict[tuple[str, str], dict[str, Stored]] = {}
        self._waiting: dict[tuple[str, str, str], list[WriteRow]] = {}
        # The checkpoint of a claimed run's input, which goes with the one that its first node starts from.
        self._input: dict[str, Any] | None = None
        # The step after which nothing is left to run, which goes with the run's end.
        self._last_step: HeldStep | None = None
        self._flushes: set[asyncio.Task[None]] = set()
        self._history = CheckpointHistory(pool, self.serde)
        self._first = claim is not None and claim.fresh
        # The checkpoint of another run that this one begins with, until LangGraph has asked for it.
        self._left: CheckpointTuple | None = None
        self._begun_from = ""
        # The root graph's newest checkpoint that this claim knows of.
        self._latest = ""
        # The step at which the root graph ends, where whoever goes on is to know.
        self.stop: int | None = None
        # Of the root graph: those inside a node have no steps of their own, and say what led to it.
        self._led_by: dict[str, LeadingDecision] = {}

    async def setup(self) -> None:
        """Makes nothing: tables are made by migrations, in a step of their own. Raises RuntimeError."""
        raise RuntimeError("the tables are made by `python -m services.runtime.commands.migrate`")

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Returns what delta channels were written, by way of the checkpoints and not of the stock tables."""
        return await BaseCheckpointSaver.aget_delta_channel_history(self, config=config, channels=channels)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Returns a version after `current`; the random part tells the branches of a fork apart."""
        del channel
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:010}.{secrets.randbits(48):012x}"

    def _place(self, config: RunnableConfig) -> tuple[str, str]:
        """Returns under which id and namespace rows are; a claimed run's are its own, whatever its thread is called."""
        configurable = config["configurable"]
        thread_id = self._claim.run_id if self._claim else str(configurable["thread_id"])
        return thread_id, configurable.get("checkpoint_ns", "")

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Saves a checkpoint, its parent's waiting writes and the decisions it carries. Raises ClaimLost."""
        thread_id, namespace = self._place(config)
        parent_id = config["configurable"].get("checkpoint_id")
        values = checkpoint["channel_values"]
        stored = self._stored.get((thread_id, namespace), {})
        kept = {channel: value for channel, value in values.items() if channel != self._steps_channel}
        steps = values.get(self._steps_channel) or []
        if steps and not namespace:
            self._led_by = _led_by(steps)
        whole_metadata = {**get_serializable_checkpoint_metadata(config, metadata), **self._led_by}
        if not namespace and self.stop is not None:
            whole_metadata[STOP] = self.stop
        marks = self._marked({channel: kept[channel] for channel in new_versions if channel in kept})
        begins = not namespace and parent_id is not None and parent_id == self._begun_from
        if begins:
            # The checkpoint before is another run's: this one has all of it.
            parent_id, new_versions, marks = None, checkpoint["channel_versions"], self._marked(kept)
        row = {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint["id"],
            "parent_checkpoint_id": parent_id,
            "body": pack_body(checkpoint),
            "changes": pack_changes(self.serde, kept, new_versions, stored, marks if self._mark else None),
            "metadata": orjson.dumps(whole_metadata).decode(),
        }
        self._check_size(size(row))
        waiting = self._waiting.pop((thread_id, namespace, parent_id or ""), [])
        if self._claim and (parent_id, namespace, metadata.get("source")) == (None, "", "input"):
            # No node runs before the next checkpoint is there; without either, the run begins from its input again.
            self._input = row
        else:
            is_new = self._steps_channel in new_versions
            await self._write(row, waiting, steps if is_new else [], values.get(SPEND) if is_new else None)
        changed = {c: Stored(version, marks[c]) for c, version in new_versions.items() if c in marks}
        self._stored[thread_id, namespace] = {**stored, **changed}
        if not namespace:
            self._latest = checkpoint["id"]
        return _config(thread_id, namespace, checkpoint["id"])

    def _marked(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns by what is seen whether values have only grown: themselves, or marks of their items."""
        if self._mark is None:
            return values
        return {channel: marked(value, self._mark) for channel, value in values.items()}

    def _check_size(self, size_bytes: int) -> None:
        most = self._max_step_bytes
        if most is not None and size_bytes > most:
            said = f"a step changes {size_bytes:,} bytes of the state, the limit max_step_bytes is {most:,}"
            raise StateTooLargeError(said)

    async def begin_from(self, left: CheckpointTuple, inside: Sequence[CheckpointTuple]) -> None:
        """Has the claimed run begin with the checkpoint of another, `inside` being those of graphs inside its nodes.

        Raises ValueError for a saver without a claim.
        """
        claim = self._claim
        if claim is None:
            raise ValueError("only a claimed run begins with what another has left")
        own: RunnableConfig = {"configurable": {**left.config["configurable"], "thread_id": claim.run_id}}
        # What tasks of the other run had written on top of it is of a step that is never applied.
        self._left = left._replace(config=own, parent_config=None, pending_writes=[])
        self._begun_from = left.checkpoint["id"]
        for each in inside:
            values = each.checkpoint["channel_values"]
            row = {
                "thread_id": claim.run_id,
                "checkpoint_ns": each.config["configurable"]["checkpoint_ns"],
                "checkpoint_id": each.checkpoint["id"],
                "parent_checkpoint_id": None,
                "body": pack_body(each.checkpoint),
                "changes": pack_changes(self.serde, values, each.checkpoint["channel_versions"], {}),
                "metadata": orjson.dumps(each.metadata).decode(),
            }
            # Nothing that a claim protects: whoever writes it writes the same, and the run has taken no step by it.
            async with self._pool.connection() as connection:
                await connection.execute(query("put_checkpoint"), row)

    async def _write(
        self, row: dict[str, Any], waiting: list[WriteRow], steps: list[StepRecord], spend: Spend | None
    ) -> None:
        if self._claim is None:
            async with self._pool.connection() as connection:
                await connection.execute(query("put_checkpoint"), row)
            if waiting:
                await self._write_ahead(row["thread_id"], row["checkpoint_ns"], row["parent_checkpoint_id"], waiting)
            return
        fenced = {
            **row,
            # A superstep of one task is by far the most common, and its statement the cheaper one.
            **(write_columns(waiting) if waiting[1:] else waiting[0]._asdict() if waiting else NO_WRITES),
            "run_id": self._claim.run_id,
            "epoch": self._claim.epoch,
            "claim_id": self._claim.claim_id,
        }
        if self._input and steps:
            # Only a conditional entry decides anything before the first node; its decision goes with the checkpoint.
            first, self._input = {**fenced, **self._input, **NO_WRITES}, None
            await self._write_step(self._claim, first, [], None)
        if self._input:
            first, self._input = self._input, None
            given = {column: first[name] for name, column in INPUT_COLUMNS.items()}
            [cancel_requested] = await self._commit("put_beginning", {**fenced, **given})
            CHECKPOINT_BYTES.inc(size(first))
        else:
            cancel_requested = await self._write_step(self._claim, fenced, steps, spend)
        CHECKPOINT_BYTES.inc(size(row) + sum(len(writes.writes) for writes in waiting))
        if cancel_requested:
            self._claim.on_cancel_requested()

    async def _write_step(
        self, claim: Claim, fenced: Mapping[str, Any], steps: list[StepRecord], spend: Spend | None
    ) -> bool:
        steps = self._with_called(steps)
        parameters = {**fenced, **self._ledger_parameters(steps, spend)}
        if steps and not fenced["checkpoint_ns"] and all(step.get("concludes") for step in steps):
            self._last_step = HeldStep(claim, steps, parameters)
            return False
        stored = list(itertools.chain.from_iterable(step.get("stored", ()) for step in steps))
        event_base, decision_base, cancel_requested, written_at = await self._commit("put_step", parameters, stored)
        if steps:
            claim.on_step(StepWritten(steps, event_base, decision_base, written_at, fenced["checkpoint_id"]))
        return bool(cancel_requested)

    def _with_called(self, steps: list[StepRecord]) -> list[StepRecord]:
        """Returns records that are about to be kept, the last of them with what callbacks have told until now."""
        if not steps or self._take_called is None or not (called := self._take_called()):
            return steps
        return [*steps[:-1], StepRecord(**{**steps[-1], "called": called})]

    def _ledger_parameters(self, steps: list[StepRecord], spend: Spend | None) -> dict[str, Any]:
        rows = step_rows(steps)
        if self._spent is not None and steps:
            costs = (spend_of(step["calls"], step["elapsed_ms"] / 1000) for step in steps)
            self._spent = spend = functools.reduce(add_spend, costs, self._spent)
        return {
            **(spend or _NO_SPEND),
            "event_count": len(rows.events),
            "decision_count": len(rows.decisions),
            "decisions": orjson.dumps(rows.decisions, default=str).decode(),
            "events": orjson.dumps(rows.events, default=str).decode(),
        }

    async def decide(self, claim: Claim, steps: list[StepRecord]) -> StepWritten:
        """Commits records that change nothing in the run's state, and so need no checkpoint. Raises ClaimLost."""
        steps = self._with_called(steps)
        parameters = {
            **self._ledger_parameters(steps, None),
            "run_id": claim.run_id,
            "epoch": claim.epoch,
            "claim_id": claim.claim_id,
            "checkpoint_id": self._latest,
        }
        event_base, decision_base, cancel_requested, written_at = await self._commit("put_decisions", parameters)
        if cancel_requested:
            claim.on_cancel_requested()
        return StepWritten(steps, event_base, decision_base, written_at, self._latest)

    async def end_unfinished(
        self, claim: Claim, ending: Ending, steps: list[StepRecord], spend: Spend | None = None
    ) -> RunRecord:
        """Ends the run in one statement with the records of a step that is never applied. Raises ClaimLost.

        `spend` is what the run has spent with that step, where its state says so of others.
        """
        steps = self._with_called(steps)
        parameters = {
            **self._ledger_parameters(steps, spend),
            "run_id": claim.run_id,
            "epoch": claim.epoch,
            "claim_id": claim.claim_id,
            "checkpoint_id": self._latest,
            **vars(ending),
        }
        event_base, decision_base, written_at, *columns = await self._commit("end_unfinished", parameters)
        if steps:
            claim.on_step(StepWritten(steps, event_base, decision_base, written_at, self._latest))
        return RunRecord.of(dict(zip(RUN_COLUMNS, columns, strict=True)))

    async def end(self, ending: Ending) -> RunRecord | None:
        """Ends the run in one statement with its last step, if that is still to be written. Raises ClaimLost.

        It is tried once: a step that the database does not take would keep any other end from being written, too.
        """
        held, self._last_step = self._last_step, None
        if held is None:
            return None
        claim, steps, parameters = held
        event_base, decision_base, written_at, *columns = await self._commit(
            "end_with_step", {**parameters, **vars(ending)}
        )
        claim.on_step(StepWritten(steps, event_base, decision_base, written_at, parameters["checkpoint_id"]))
        return RunRecord.of(dict(zip(RUN_COLUMNS, columns, strict=True)))

    async def _commit(
        self, name: str, parameters: Mapping[str, Any], stored: list[ItemWrite] | None = None
    ) -> tuple[Any, ...]:
        """Writes for the claimed run, together with what its nodes have heard and keep. Raises ClaimLost."""
        heard = self.recording.take() if self.recording else []
        async with self._pool.connection() as connection:
            if not heard and not stored:
                return await self._put(connection, name, parameters)
            async with connection.transaction():
                written = await self._put(connection, name, parameters)
                if heard:
                    await connection.execute(query("put_answers"), {"run_id": parameters["run_id"], "answers": heard})
                if stored and self._store:
                    await put_items(connection, self._store, stored)
                return written

    async def _put(self, connection: AsyncConnection[Any], name: str, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
        cursor = await connection.execute(query(name, several="task_ids" in parameters), parameters)
        written: tuple[Any, ...] | None = await cursor.fetchone()
        if written is None:
            raise ClaimLost(f"run {parameters['run_id']} is no longer claimed at epoch {parameters['epoch']}")
        return written

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Saves a task's writes: with the step's checkpoint when that comes at once, else ahead of it."""
        thread_id, namespace = self._place(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        rows = [WriteRow(task_id, idx, task_path, pack_writes(self.serde, part)) for idx, part in split(writes)]
        self._check_size(sum(len(row.writes) for row in rows) - self._told_bytes(writes))
        if self._claim is None or any(row.idx < 0 for row in rows):
            await self._write_ahead(thread_id, namespace, checkpoint_id, rows)
            return
        self._waiting.setdefault((thread_id, namespace, checkpoint_id), []).extend(rows)
        self._flush_later(thread_id, namespace, checkpoint_id)

    def _flush_later(self, thread_id: str, namespace: str, checkpoint_id: str) -> None:
        asyncio.get_running_loop().call_later(WRITES_WAIT_S, self._begin_flush, thread_id, namespace, checkpoint_id)

    def _told_bytes(self, writes: Sequence[tuple[str, Any]]) -> int:
        """Returns how much a node wrote to its stream writer, which is none of the state and has bounds of its own."""
        records = [each for channel, each in writes if channel == self._steps_channel and isinstance(each, dict)]
        told = (each for record in records for part in record.get("written", ()) for each in part["writes"])
        return sum(len(each.encode()) for each in told if isinstance(each, str))

    def _begin_flush(self, thread_id: str, namespace: str, checkpoint_id: str) -> None:
        if (thread_id, namespace, checkpoint_id) in self._waiting:
            flush = asyncio.create_task(self._flush(thread_id, namespace, checkpoint_id))
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)

    async def write_waiting(self) -> None:
        """Saves what tasks have written to a step that does not come in this claim, however long the database is away.

        Raises ClaimLost.
        """
        while self._flushes or self._waiting:
            if self._flushes:
                await asyncio.gather(*self._flushes)
            elif not await self._write_kept(next(iter(self._waiting))):
                await asyncio.sleep(WRITES_WAIT_S)

    async def _flush(self, thread_id: str, namespace: str, checkpoint_id: str) -> None:
        try:
            if not await self._write_kept((thread_id, namespace, checkpoint_id)):
                self._flush_later(thread_id, namespace, checkpoint_id)
        except ClaimLost as error:
            # Nobody waits for this; the step's checkpoint, which is waited for, fares no better.
            log.warning("writes not saved ahead of their step", error=str(error))

    async def _write_kept(self, place: tuple[str, str, str]) -> bool:
        """Saves what tasks have written to a step; where the database is away it is kept, and this is False.

        Raises ClaimLost.
        """
        rows = self._waiting.pop(place, [])
        try:
            if rows:
                await self._write_ahead(*place, rows)
        except DatabaseAway as error:
            log.warning("the database is away; keeping what tasks have written", error=str(error))
            self._waiting[place] = [*rows, *self._waiting.get(place, [])]
            return False
        return True

    async def _write_ahead(self, thread_id: str, namespace: str, checkpoint_id: str, rows: list[WriteRow]) -> None:
        parameters = {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
            "run_id": self._claim.run_id if self._claim else None,
            "epoch": self._claim.epoch if self._claim else None,
            "claim_id": self._claim.claim_id if self._claim else None,
            **write_columns(rows),
        }
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("put_writes"), parameters)
            written = await cursor.fetchone()
        if not written or not written[0]:
            raise ClaimLost(f"thread {thread_id} is no longer claimed")
        CHECKPOINT_BYTES.inc(sum(len(row.writes) for row in rows))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Returns the checkpoint that config names, or the latest of its thread."""
        if self._left is not None:
            left, self._left, self._first = self._left, None, False
            return left
        if self._first:
            # Asked once before the first checkpoint of a run that nobody has executed yet.
            self._first = False
            return None
        thread_id, namespace = self._place(config)
        found = await self._history.load(thread_id, namespace, get_checkpoint_id(config))
        if found is None:
            return None
        if namespace == "":
            self._latest = found.checkpoint["id"]
            kept = led_by_of(found.metadata)
            self._led_by = {LED_BY: kept[0]} if kept else {}
        versions = found.checkpoint["channel_versions"]
        values = found.checkpoint["channel_values"]
        marks = self._marked(values)
        self._stored[thread_id, namespace] = {c: Stored(versions[c], value) for c, value in marks.items()}
        return found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name is LangGraph's
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yields checkpoints, newest first."""
        async for found in self._history.select(config, metadata_filter=filter, before=before, limit=limit):
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        """Deletes a thread's checkpoints and writes."""
        await self._history.delete_threads([thread_id])

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies a thread's checkpoints and writes under another id."""
        await self._history.copy_thread(source_thread_id, target_thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints whose metadata names one of the runs."""
        await self._history.delete_for_runs(run_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes all but the latest checkpoint of each namespace of the threads, or with `delete`, all."""
        await self._history.prune(thread_ids, strategy)


def _led_by(steps: Sequence[StepRecord]) -> dict[str, LeadingDecision]:
    """Returns what the next node is told of the decision that led to it, for whoever continues from the checkpoint."""
    made = last_decision(steps)
    if made is None:
        return {}
    return {
        LED_BY: LeadingDecision(
            decision_id=made["decision_id"], rule=made["rule"], trace_id=made["trace_id"], span_id=made["span_id"]
        )
    }


def led_by_of(metadata: Mapping[str, Any] | None) -> list[LeadingDecision]:
    """Returns the decision that led to the node that goes on from a checkpoint; none where its release kept none."""
    kept = (metadata or {}).get(LED_BY)
    return [cast(LeadingDecision, kept)] if kept else []


def stop_of(metadata: Mapping[str, Any] | None) -> int | None:
    """Returns the step at which the graph of a checkpoint ends; None where nothing says so."""
    kept = (metadata or {}).get(STOP)
    return kept if isinstance(kept, int) else None


def _config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}
