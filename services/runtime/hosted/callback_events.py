"""What LangChain's callbacks tell in a claimed run, as `astream_events` has it: told at once, and kept with the steps.

All that a claim has told is one row of events, which are counted; whoever goes on with the run begins another one
(docs/adr/0099-callback-events.md).
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import UUID, uuid4

import orjson
from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langchain_core.runnables.schema import StreamEvent
from langchain_core.tracers.event_stream import _AstreamEventsCallbackHandler
from langgraph._internal._constants import INTERRUPT
from langgraph.constants import TAG_HIDDEN, TAG_NOSTREAM
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from services.kit.telemetry.logs import get_logger
from services.runtime.hosted.custom_writes import LEFT_OUT, NOT_JSON, TOO_MUCH, json_of

log = get_logger()
# By these tags a graph keeps what a model says to itself, here as with LangGraph's own streams of messages.
SILENT: Final = frozenset((TAG_NOSTREAM, "langsmith:nostream"))
# Bytes as JSON of what comes between two events that are kept, and in a claim. Of the former, the last part is for what
# is no word of a model, or other part of an output.
MOST_OF_STEP: Final = 2 * 1024 * 1024
MOST_OF_CLAIM: Final = 16 * 1024 * 1024
NOT_FOR_PARTS: Final = MOST_OF_STEP // 4
WEIGHT: Final = 20
_PART_OF_OUTPUT: Final = "_stream"
_OF_MODELS: Final = ("on_chat_model_", "on_llm_")


class CallbackEvents:
    """The events of a claim, from whatever thread they come: each is told as a part `{claim, about, offset, data}`."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell = tell
        self._claim = uuid4().hex
        self._count = 0
        self._untaken: list[dict[str, Any]] = []
        self._step_bytes = self._claim_bytes = 0
        # Whether it has been said that something is left out, and whether nothing more is told.
        self._is_cut = self._is_over = False
        self._lock = threading.Lock()

    def add(self, event: Mapping[str, Any]) -> None:
        """Takes an event, unless it is too much; its data is told if it is JSON and not too long, else why not."""
        if self._is_over:
            return
        data = json_of(event["data"], fallback=_plain)
        about = json_of({name: each for name, each in event.items() if name != "data"}, fallback=_plain)
        if not isinstance(about, str):
            about = orjson.dumps({name: str(event[name])[:200] for name in ("event", "run_id", "name")}).decode()
        with self._lock:
            size_bytes = WEIGHT + (len(data.encode()) if isinstance(data, str) else 0)
            if not self._untaken or self._untaken[-1]["about"] != about:
                size_bytes += len(about.encode())
            most = MOST_OF_STEP - (NOT_FOR_PARTS if event["event"].endswith(_PART_OF_OUTPUT) else 0)
            self._is_over = self._claim_bytes + size_bytes > MOST_OF_CLAIM
            if self._is_over or self._step_bytes + size_bytes > most:
                if not self._is_cut:
                    log.warning("what callbacks tell is left out", cause=TOO_MUCH)
                    self._is_cut = True
                    self._put("", {LEFT_OUT: TOO_MUCH})
                return
            self._step_bytes += size_bytes
            self._claim_bytes += size_bytes
            self._put(about, data)

    def _put(self, about: str, data: str | dict[str, str]) -> None:
        if not self._untaken or self._untaken[-1]["about"] != about:
            self._untaken.append({"claim": self._claim, "about": about, "offset": self._count, "data": []})
        self._untaken[-1]["data"].append(data)
        self._count += 1
        self._tell({"claim": self._claim, "about": about, "offset": self._count - 1, "data": [data]})

    def take(self) -> list[dict[str, Any]]:
        """Returns the events since the last time, which are to be kept."""
        with self._lock:
            taken, self._untaken = self._untaken, []
            self._step_bytes, self._is_cut = 0, self._is_over
            return taken

    async def invoke(
        self, graph: CompiledStateGraph[Any, Any, Any, Any], given: Any, config: RunnableConfig, **arguments: Any
    ) -> Any:
        """Invokes a graph as its `ainvoke` does, and takes what `astream_events` would tell of it."""
        run_id = uuid4()
        handler = _Handler(self, run_id)
        # The first that takes what a call brings in parts is the only one.
        config = {**config, "run_id": run_id, "callbacks": [handler, *_handlers(config)]}
        left = _Left()
        async for _ in handler.tap_output_aiter(run_id, left.updates(graph, given, config, **arguments)):
            pass
        return left.state


async def streamed(node: Runnable[Any, Any], given: Any, config: RunnableConfig, **named: Any) -> AsyncIterator[Any]:
    """Yields what a node brings as it comes; a chain's steps are called as if they were the node's own.

    So LangGraph has them, and nothing is told of the chain besides.
    """
    first, *others = node.steps if isinstance(node, RunnableSequence) else [node]
    parts = first.astream(given, config, **named)
    for number, step in enumerate(others, 2):
        parts = step.atransform(parts, _of_step(config, number))
    async for part in parts:
        yield part


def _of_step(config: RunnableConfig, number: int) -> RunnableConfig:
    callbacks = config.get("callbacks")
    if not isinstance(callbacks, BaseCallbackManager):
        return config
    callbacks = callbacks.copy()
    callbacks.remove_tags(["seq:step:1"])
    callbacks.add_tags([f"seq:step:{number}"], inherit=False)
    return {**config, "callbacks": callbacks}


def _handlers(config: RunnableConfig) -> list[Any]:
    callbacks = config.get("callbacks") or []
    return list(callbacks if isinstance(callbacks, list) else callbacks.handlers)


class _Left:
    """The state in which a graph leaves off, as `ainvoke` returns it."""

    def __init__(self) -> None:
        self.state: Any = None

    async def updates(
        self, graph: CompiledStateGraph[Any, Any, Any, Any], given: Any, config: RunnableConfig, **arguments: Any
    ) -> AsyncIterator[Any]:
        """Yields what a graph streams by itself: what each node has changed, and what is asked."""
        interrupts: list[Any] = []
        async for mode, told in graph.astream(given, config, stream_mode=["updates", "values"], **arguments):
            if mode == "values":
                self.state = told
                continue
            if isinstance(told, Mapping) and INTERRUPT in told:
                interrupts.extend(told[INTERRUPT])
            yield told
        if interrupts:
            state = self.state if isinstance(self.state, dict) else {}
            self.state = {**state, INTERRUPT: interrupts}


class _Handler(_AstreamEventsCallbackHandler):
    """LangChain's own handler of `astream_events`, whose events go to those of a claim and to no queue."""

    # Before the others, whose words of a model follow its event: clients that ask for both take the first that comes.
    run_inline = True

    def __init__(self, events: CallbackEvents, root: UUID) -> None:
        super().__init__()
        self._events = events
        self._root = str(root)

    def on_llm_new_token(self, *arguments: Any, **named: Any) -> None:  # type: ignore[override]
        """Tells a word at once, also where no loop runs; what it overrides waits for nothing."""
        telling = super().on_llm_new_token(*arguments, **named)
        with suppress(StopIteration):
            telling.send(None)

    def _send(self, event: StreamEvent, event_type: str) -> None:
        del event_type
        tags = event.get("tags") or ()
        if TAG_HIDDEN in tags or (event["event"].startswith(_OF_MODELS) and not SILENT.isdisjoint(tags)):
            return
        if event["event"] == "on_chain_end" and event["run_id"] == self._root:
            # As `astream_events` has it: it came with the first event.
            event["data"].pop("input", None)
        self._events.add(event)


def _plain(value: Any) -> Any:
    """Returns what stands for a value that has no form in JSON: of an error its type, and none of its words."""
    if isinstance(value, BaseException):
        return {"error": type(value).__name__}
    if isinstance(value, Send):
        return {"node": value.node, "arg": value.arg}
    return {LEFT_OUT: NOT_JSON}
