"""What a node does to its process is contained: `sys.exit` ends its run only, and threads that it leaves are replaced.

A thread can't be ended. One whose node was given up goes on, and would take the room of others in the pool.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from services.kit.telemetry.logs import get_logger

log = get_logger()
# Of its threads that go on for nobody, a pool replaces so many times its own number.
MOST_LEFT: Final = 8
# Passed on as it is by whoever has not asked for it: else it ends the process, or a wait that nobody wakes up again.
_PASSED_ON: Final = (Exception, asyncio.CancelledError)


class NodeExited(Exception):
    """A node or a tool tried to end the process, or raised what is no `Exception`."""


@dataclass(eq=False)
class _Wanted:
    """Whether somebody waits for what a node does."""

    still: bool = True


_wanted: ContextVar[_Wanted | None] = ContextVar("hosted_wanted", default=None)


@contextmanager
def contained() -> Iterator[None]:
    """Raises NodeExited for what would end the process, or its run's task; threads that go on do so for nobody."""
    wanted = _Wanted()
    token = _wanted.set(wanted)
    try:
        with _exits_refused():
            yield
    finally:
        wanted.still = False
        _wanted.reset(token)


def contain(loop: asyncio.AbstractEventLoop, *, threads: int) -> None:
    """Has no task of a loop, and none of the threads of nodes that block, end it; libraries begin both.

    The loop's own threads are a few more than there are cores, which nodes that block would fill.
    """
    loop.set_task_factory(_task)
    loop.set_default_executor(_NodeThreads(threads))


@contextmanager
def _exits_refused() -> Iterator[None]:
    running = _running_task()
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if _is_asked_for(error, running):
            raise
        raise _refused(error) from error


def _running_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _is_asked_for(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Tells whether what ends a task comes from outside: it was cancelled, or is thrown away while another one runs."""
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit) and _running_task() is not task


def _refused(error: BaseException) -> NodeExited:
    return NodeExited(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)


class _NodeThreads(ThreadPoolExecutor):
    def __init__(self, threads: int) -> None:
        super().__init__(threads, thread_name_prefix="node")
        self._threads_wanted = threads
        self._running: dict[int, _Wanted | None] = {}
        self._left = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        running = list(self._running.values())
        if len(running) >= self._threads_wanted:
            left = sum(wanted is not None and not wanted.still for wanted in running)
            self._max_workers = self._threads_wanted + min(left, MOST_LEFT * self._threads_wanted)
            if left > self._left:
                log.warning("threads go on for nodes that were given up", threads=left)
            self._left = left
        return super().submit(self._call, _wanted.get(), fn, *args, **kwargs)

    def _call(self, wanted: _Wanted | None, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self._running[threading.get_ident()] = wanted
        try:
            return fn(*args, **kwargs)
        except _PASSED_ON:
            raise
        except BaseException as error:
            raise _refused(error) from error
        finally:
            del self._running[threading.get_ident()]


def _task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    return asyncio.Task(_awaited(coroutine), loop=loop, **options)


async def _awaited(coroutine: Coroutine[Any, Any, Any]) -> Any:
    # Of every task: no context manager, which costs more than what it does.
    try:
        return await coroutine
    except _PASSED_ON:
        raise
    except BaseException as error:
        if isinstance(error, GeneratorExit) and not _is_of_running_task(sys._getframe()):
            raise
        raise _refused(error) from error


def _is_of_running_task(frame: FrameType) -> bool:
    """Tells whether a frame is the outermost of the task that runs, and not of one that is thrown away by it."""
    task = _running_task()
    return task is not None and getattr(task.get_coro(), "cr_frame", None) is frame
