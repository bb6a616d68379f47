"""Effects of a graph's own functions whose results are kept: `@signalbox.effect`.

That an effect begins is written down before it, and its result after it, each in a statement that a replica which has
lost the run can't make. A node that runs again finds the result; or that something began, and asks the function's
`look_up` what came of it.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

from services.runtime.hosted.executor_tools import PlatformMissing, from_thread, on_platform, operation_id
from services.runtime.hosted.session import (
    IN_PROCESS,
    TOOL,
    CallUnderWay,
    HostedSession,
    Visit,
    current_session,
    current_visit,
    effect_under_way,
)
from services.runtime.routing.calls import OK, cleaned
from services.runtime.routing.recorder import CallRecord

Function = Callable[..., Any]
EFFECT: Final = "effect"
# What the ledger says of an effect that was not repeated: its result was kept, or looked up.
KEPT, LOOKED_UP = "kept", "looked_up"


def effect_key() -> str:
    """Returns the key of the effect that is under way; empty outside of one."""
    return effect_under_way.get()


def effect(function: Function, look_up: Function | None) -> Function:
    """Returns a function whose result is kept, of the same kind: a coroutine or not."""
    name = getattr(function, "__name__", "effect")
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def in_coroutine(*args: Any, **kwargs: Any) -> Any:
            session = current_session()
            if session is None:
                return await function(*args, **kwargs)
            visit = _visit(name)
            taking = _Effect(session, visit, name, operation_id(visit, name, {"args": args, "kwargs": kwargs}, ""))
            if await on_platform(session, taking.begin()):
                return taking.result
            with taking.held():
                with taking.noting():
                    found = await _awaited(look_up(taking.key, *args, **kwargs)) if look_up and taking.again else None
                    result = taking.looked_up(found) if found is not None else await function(*args, **kwargs)
                await on_platform(session, taking.end(result))
            return result

        return in_coroutine

    @functools.wraps(function)
    def in_thread(*args: Any, **kwargs: Any) -> Any:
        session = current_session()
        if session is None:
            return function(*args, **kwargs)
        visit = _visit(name)
        taking = _Effect(session, visit, name, operation_id(visit, name, {"args": args, "kwargs": kwargs}, ""))
        if from_thread(session, taking.begin()):
            return taking.result
        with taking.held():
            with taking.noting():
                found = look_up(taking.key, *args, **kwargs) if look_up and taking.again else None
                result = taking.looked_up(found) if found is not None else function(*args, **kwargs)
            from_thread(session, taking.end(result))
        return result

    return in_thread


def _visit(name: str) -> Visit:
    visit = current_visit()
    if visit is None:
        raise PlatformMissing(f"the effect {name!r} was called outside of a node of the graph")
    return visit


async def _awaited(found: Any) -> Any:
    return await found if isinstance(found, Awaitable) else found


class _Effect:
    """One effect: `again` says that an earlier attempt has begun it, and nobody knows what came of that."""

    def __init__(self, session: HostedSession, visit: Visit, name: str, operation: str) -> None:
        self.key = f"{session.run_id}/{operation}"
        self.result: Any = None
        self.again = False
        self._operation = operation
        self._id = uuid4()
        self._session = session
        self._visit = visit
        self._call = CallRecord(kind=TOOL, name=name, outcome=OK, elapsed_ms=0.0, input_tokens=0, output_tokens=0)
        self._call["service"] = EFFECT

    async def begin(self) -> bool:
        """Writes down that it begins; returns whether its result is known already. Raises ClaimLost."""
        if self._session.journal is None:
            raise PlatformMissing("effects can't be kept here")
        under_way = CallUnderWay(self._call, time.perf_counter(), self._visit)
        self._session.begin(self._id, under_way, ("tool_calls",))
        self._hold()
        try:
            earlier = await self._session.journal.begin(self._operation, self._call["name"])
        except BaseException:
            self._session.ended(self._id)  # it has not begun
            self._let_go()
            raise
        if earlier is None:
            return False
        self.again = True
        if not earlier.ended:
            return False
        self.result = earlier.result
        self._call["outcome"] = KEPT
        self._note()
        self._let_go()
        return True

    def _hold(self) -> None:
        if self._visit.limit is not None:
            self._visit.limit.hold()

    def _let_go(self) -> None:
        if self._visit.limit is not None:
            self._visit.limit.let_go()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps its node from being broken off until the context ends, in whichever thread or loop that is."""
        try:
            yield
        finally:
            self._session.loop.call_soon_threadsafe(self._let_go)

    def looked_up(self, found: Any) -> Any:
        """Takes what was looked up for the result."""
        self._call["outcome"] = LOOKED_UP
        return found

    def noting(self) -> _Noting:
        """Notes it as a call of the node, also where it fails."""
        return _Noting(self)

    async def end(self, result: Any) -> None:
        """Keeps the result. Raises ClaimLost, TypeNotAllowedError."""
        assert self._session.journal is not None  # noqa: S101 - it has begun
        await self._session.journal.end(self._operation, result)

    def finish(self, began: float, error: BaseException | None) -> None:
        """Notes how it went; one that was called again, since nobody could look it up, happened at least once."""
        if error is not None:
            self._call["outcome"] = type(error).__name__
        if self.again and self._call["outcome"] != LOOKED_UP:
            self._call["service"] = IN_PROCESS
        self._call["elapsed_ms"] = round((time.perf_counter() - began) * 1000, 3)
        self._note()

    def _note(self) -> None:
        # One that nobody waits for any more is in the ledger as cut.
        if self._session.ended(self._id):
            self._call["ended_at"] = round(time.time(), 6)
            self._session.note(cleaned(self._call), self._visit)


class _Noting:
    def __init__(self, effect: _Effect) -> None:
        self._effect = effect
        self._began = time.perf_counter()

    def __enter__(self) -> None:
        self._token = effect_under_way.set(self._effect.key)

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        effect_under_way.reset(self._token)
        self._effect.finish(self._began, error)
