"""What nodes write to LangGraph's stream writer: told while they run, and kept with what they bring.

An attempt at a node writes by itself: where the node runs again, it writes anew (docs/adr/0096-custom-writes.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import orjson
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph._internal._config import patch_configurable
from langgraph._internal._constants import (
    CONF,
    CONFIG_KEY_CHECKPOINT_NS,
    CONFIG_KEY_RUNTIME,
    CONFIG_KEY_STREAM,
    NS_END,
    NS_SEP,
)
from langgraph.pregel.protocol import StreamProtocol
from pydantic_core import to_jsonable_python

from services.kit.telemetry.logs import get_logger
from services.runtime.routing.storable import presentable_parts

log = get_logger()
LEFT_OUT: Final = "left_out"
TOO_LONG, NOT_JSON, TOO_MUCH = "too_long", "not_json", "too_much"
# Bytes of a write as JSON, and of what an attempt, and a run in one claim, may write; each write takes some besides.
MOST_OF_WRITE: Final = 64 * 1024
MOST_OF_ATTEMPT: Final = 512 * 1024
MOST_OF_CLAIM: Final = 2 * 1024 * 1024
WEIGHT: Final = 20
# A graph that a node calls by itself hands its writes on where it believes that somebody streams it.
_NO_STREAM: Final = StreamProtocol(lambda _: None, set())
Tell = Callable[[dict[str, Any]], None]


@dataclass
class Written:
    """What an attempt has written, as parts `{node, attempt, offset, writes}`: of each write its JSON, or why not."""

    attempt: str = field(default_factory=lambda: uuid4().hex)
    parts: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0
    size_bytes: int = 0
    is_full: bool = False

    def add(self, node: str, write: str | dict[str, str]) -> dict[str, Any]:
        """Adds a write; returns it as a part of its own."""
        if not self.parts or self.parts[-1]["node"] != node:
            self.parts.append({"node": node, "attempt": self.attempt, "offset": self.count, "writes": []})
        self.parts[-1]["writes"].append(write)
        self.count += 1
        return {"node": node, "attempt": self.attempt, "offset": self.count - 1, "writes": [write]}


class CustomWrites:
    """The writes of a claimed run, from whatever thread they come."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._size_bytes = 0
        self._lock = threading.Lock()

    def write(self, written: Written, node: str, value: Any) -> None:
        """Takes what an attempt writes: told if it is JSON and not too much, else that it is left out."""
        if written.is_full:
            return
        write = json_of(value)
        with self._lock:
            size_bytes = WEIGHT + (len(write.encode()) if isinstance(write, str) else 0)
            if written.is_full:
                return
            if written.size_bytes + size_bytes > MOST_OF_ATTEMPT or self._size_bytes + size_bytes > MOST_OF_CLAIM:
                write, written.is_full = {LEFT_OUT: TOO_MUCH}, True
            else:
                written.size_bytes += size_bytes
                self._size_bytes += size_bytes
            if not isinstance(write, str):
                log.warning("what a node wrote is left out", node=node, cause=write[LEFT_OUT])
            self._tell(written.add(node, write))


def json_of(value: Any, *, fallback: Callable[[Any], Any] | None = None) -> str | dict[str, str]:
    """Returns a value as JSON, in which parts are told as those of the state are; or why there is none.

    `fallback` returns what stands for a part that has no form in JSON; without it there is none of the whole.
    """
    try:
        plain = presentable_parts(to_jsonable_python(value, bytes_mode="base64", fallback=fallback), MOST_OF_WRITE)
        found = orjson.dumps(plain)
    except Exception:  # noqa: BLE001 - what is written says by code of its own what it is as JSON
        return {LEFT_OUT: NOT_JSON}
    return {LEFT_OUT: TOO_LONG} if len(found) > MOST_OF_WRITE else found.decode()


def writing_to(config: RunnableConfig, write: Callable[[str, Any], None], place: str) -> RunnableConfig:
    """Returns a node's config whose stream writer hands on what is written, and by which node: it, or one inside it."""

    def writer(value: Any) -> None:
        inside = (var_child_runnable_config.get() or {}).get(CONF, {}).get(CONFIG_KEY_CHECKPOINT_NS, "")
        names = [part.partition(NS_END)[0] for part in str(inside).split(NS_SEP) if part and not part.isdecimal()]
        write("/".join(names) or place, value)

    runtime = config[CONF][CONFIG_KEY_RUNTIME].override(stream_writer=writer)
    written = patch_configurable(config, {CONFIG_KEY_RUNTIME: runtime, CONFIG_KEY_STREAM: _NO_STREAM})
    # For what asks for the writer by the context.
    var_child_runnable_config.set(written)
    return written
