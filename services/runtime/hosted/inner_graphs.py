"""Graphs inside the nodes of a hosted graph: whether one goes on or begins, and those that keep no checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph._internal._config import patch_configurable, recast_checkpoint_ns
from langgraph._internal._constants import (
    CONF,
    CONFIG_KEY_CHECKPOINT_MAP,
    CONFIG_KEY_CHECKPOINT_NS,
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_RESUMING,
)
from langgraph.pregel._loop import PregelLoop


class _NothingPut:
    """The checkpoint of a step that was never put: there is nothing to wait for."""

    def __await__(self) -> Iterator[None]:
        return iter(())

    def result(self) -> None:
        """Returns at once."""


# Of a graph with `checkpointer=False`, inside one with `durability="sync"`, LangGraph 1.2.22 waits for a checkpoint
# that it has not put, and fails.
setattr(PregelLoop, "_put_checkpoint_fut", _NothingPut())  # noqa: B010 - it declares another type


async def anew_unless_begun(config: RunnableConfig) -> RunnableConfig:
    """Has a graph inside that keeps its state take its input, unless it has begun on it.

    LangGraph has one go on that is called when a run goes on, from the latest checkpoint that it has; where the process
    ended before it had put one, that is of an earlier call, and the input of this one would be lost.
    """
    given = config[CONF]
    # None in a graph that was compiled to keep no checkpoints, whose nodes may be tried again all the same.
    checkpointer = given.get(CONFIG_KEY_CHECKPOINTER)
    if not given.get(CONFIG_KEY_RESUMING) or checkpointer is None:
        return config
    place = {
        "thread_id": given.get("thread_id"),
        CONFIG_KEY_CHECKPOINT_NS: recast_checkpoint_ns(given[CONFIG_KEY_CHECKPOINT_NS]),
    }
    latest = await checkpointer.aget_tuple({CONF: place})
    if latest is None or latest.metadata.get("parents") == given.get(CONFIG_KEY_CHECKPOINT_MAP):
        return config
    anew = patch_configurable(config, {CONFIG_KEY_RESUMING: False})
    # For one that a node calls itself, which is given its config by no one.
    var_child_runnable_config.set(anew)
    return anew
