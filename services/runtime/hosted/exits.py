"""What would end the process ends its run only: a node that calls `sys.exit` has failed, and no replica dies of it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any


class NodeExited(Exception):
    """A node or a tool tried to end the process."""


@contextmanager
def exits_contained() -> Iterator[None]:
    """Raises NodeExited, with the place that it came from, for what asyncio would end its loop by."""
    try:
        yield
    except (SystemExit, KeyboardInterrupt) as error:
        said = f"{type(error).__name__}: {error}"
        raise NodeExited(said).with_traceback(error.__traceback__) from error


def contain_exits(loop: asyncio.AbstractEventLoop, *, threads: int) -> None:
    """Has no task of a loop, and none of the threads of nodes that block, end it; libraries begin both.

    The loop's own threads are a few more than there are cores, which nodes that block would fill.
    """
    loop.set_task_factory(_task)
    loop.set_default_executor(_NodeThreads(threads, thread_name_prefix="node"))


class _NodeThreads(ThreadPoolExecutor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(functools.partial(_called, fn), *args, **kwargs)


def _called(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    with exits_contained():
        return fn(*args, **kwargs)


def _task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    return asyncio.Task(_awaited(coroutine), loop=loop, **options)


async def _awaited(coroutine: Coroutine[Any, Any, Any]) -> Any:
    with exits_contained():
        return await coroutine
