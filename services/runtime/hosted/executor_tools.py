"""Tools of the platform's executors for hosted graphs, as LangChain has tools: `signalbox.tools("sql_executor")`.

A graph asks for them when it is loaded, when no run is there; they are described by what their executor listed then. A
call finds its run in the session, and goes out with that run's token, at its epoch, by a key that is the same when the
step runs again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar

from langchain_core.callbacks import AsyncCallbackManagerForToolRun, CallbackManagerForToolRun
from langchain_core.tools import BaseTool, ToolException
from langgraph.types import interrupt
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from signalbox.v1 import tools_pb2

from services.runtime.agents.refusals import refusal
from services.runtime.calls.peers import CODE_EXECUTOR, GRAPH_EXECUTOR, MCP_EXECUTOR, SQL_EXECUTOR, Executor
from services.runtime.calls.tool_client import ToolDescription
from services.runtime.errors import DependencyAway
from services.runtime.hosted.session import HostedSession, Visit, current_session, current_visit
from services.runtime.routing.calls import OK, Allowance, allowing, collecting
from services.runtime.routing.run_context import NodeContext

EXECUTORS: Final = {each.name: each for each in (SQL_EXECUTOR, GRAPH_EXECUTOR, CODE_EXECUTOR, MCP_EXECUTOR)}
Catalog = Mapping[str, ToolDescription]
GRANT_MISSING: Final = "grant_missing"
_LONGEST_CALL_ID: Final = 128
_T = TypeVar("_T")


class PlatformMissing(RuntimeError):
    """What needs the platform was asked for where none is, or not from where it can be given."""


class CatalogNeeded(Exception):
    """A graph that is loaded wants the tools of an executor that has not been asked for them yet."""

    def __init__(self, executor: Executor) -> None:
        super().__init__(f"the tools of {executor.title} are not known yet")
        self.executor = executor


_catalogs: ContextVar[Mapping[str, Catalog] | None] = ContextVar("catalogs", default=None)


@contextmanager
def offering(catalogs: Mapping[str, Catalog]) -> Iterator[None]:
    """Has graphs that are loaded inside the context find these catalogs, by the name of their executor."""
    token = _catalogs.set(catalogs)
    try:
        yield
    finally:
        _catalogs.reset(token)


def tools(executor: str, fixed: Mapping[str, Any]) -> list[BaseTool]:
    """Returns the tools of an executor. Raises PlatformMissing, ValueError, CatalogNeeded while a graph is loaded."""
    known = EXECUTORS.get(executor)
    if known is None:
        raise ValueError(f"there is no executor {executor!r}; there are {', '.join(EXECUTORS)}")
    session = current_session()
    catalogs = session.catalogs if session else _catalogs.get()
    if catalogs is None:
        raise PlatformMissing(
            f"signalbox.tools({executor!r}) needs the platform: load the graph by `signalbox dev`, or leave them out"
        )
    if executor not in catalogs:
        if session is not None:
            raise PlatformMissing(f"ask for signalbox.tools({executor!r}) where the graph is made, not in a node")
        raise CatalogNeeded(known)
    described = [each for _, each in sorted(catalogs[executor].items()) if not each.for_platform]
    return [_tool(known, each, fixed) for each in described]


def _tool(executor: Executor, described: ToolDescription, fixed: Mapping[str, Any]) -> ExecutorTool:
    schema = dict(described.input_schema)
    properties = {name: value for name, value in (schema.get("properties") or {}).items() if name not in fixed}
    schema["properties"] = properties
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name in properties]
    description = "\n\n".join(filter(None, (described.description, described.notes)))
    return ExecutorTool(
        name=described.name,
        description=description,
        args_schema={"title": described.name, "description": description, **schema},
        executor=executor.name,
        fixed=dict(fixed),
        read_only=described.read_only,
        at_least_once=described.at_least_once,
        handle_tool_error=True,
    )


_call_id: ContextVar[str] = ContextVar("tool_call_id", default="")


class ExecutorTool(BaseTool):
    """A tool of an executor."""

    executor: str
    fixed: dict[str, Any]
    read_only: bool
    at_least_once: bool

    def run(self, *given: Any, tool_call_id: str | None = None, **options: Any) -> Any:
        """Runs it from a node that is no coroutine."""
        with _called_by(tool_call_id):
            return super().run(*given, tool_call_id=tool_call_id, **options)

    async def arun(self, *given: Any, tool_call_id: str | None = None, **options: Any) -> Any:
        """Runs it."""
        with _called_by(tool_call_id):
            return await super().arun(*given, tool_call_id=tool_call_id, **options)

    def _run(self, *, run_manager: CallbackManagerForToolRun | None = None, **arguments: Any) -> Any:
        session = _session()
        call = _Call(session, current_visit(), self, arguments, run_manager)
        asked = from_thread(session, call.has_asked())
        if asked:
            interrupt(asked)
        answer = from_thread(session, call.answer())
        if question := None if asked else from_thread(session, call.question(answer)):
            interrupt(question)
        return _said(answer)

    async def _arun(self, *, run_manager: AsyncCallbackManagerForToolRun | None = None, **arguments: Any) -> Any:
        session = _session()
        call = _Call(session, current_visit(), self, arguments, run_manager)
        asked = await on_platform(session, call.has_asked())
        if asked:
            interrupt(asked)
        answer = await on_platform(session, call.answer())
        if question := None if asked else await on_platform(session, call.question(answer)):
            interrupt(question)
        return _said(answer)


class _Call:
    """A call of a tool, and the question that it may lead to: for a grant that is missing.

    LangGraph gives the answers of a task to its questions in their order. So a call that has asked asks again when its
    node runs again, whatever comes of it now, and takes its own answer.
    """

    def __init__(
        self, session: HostedSession, visit: Visit | None, tool: ExecutorTool, arguments: dict[str, Any], manager: Any
    ) -> None:
        if session.connections is None or session.run is None or visit is None:
            raise PlatformMissing(f"the tool {tool.name!r} was called outside of a node of the graph")
        self._session, self._visit, self._tool, self._manager = session, visit, tool, manager
        self._run, self._connections = session.run, session.connections
        self._arguments = {**arguments, **tool.fixed}
        self._key = operation_id(visit, tool.name, self._arguments, _call_id.get())

    async def has_asked(self) -> dict[str, str] | None:
        """Returns the question that it has asked in an earlier run of its node."""
        journal = self._session.journal
        # In a run's first claim nothing of it has run before.
        if self._tool.executor != MCP_EXECUTOR.name or journal is None or self._run.epoch == 1:
            return None
        message = await journal.kept(self._grant)
        return {"question": message} if message else None

    async def question(self, answer: tools_pb2.CallToolResponse) -> dict[str, str] | None:
        """Returns what an answer makes it ask, and writes that down first."""
        if answer.error.reason != GRANT_MISSING or self._session.journal is None:
            return None
        await self._session.journal.begin(self._grant, self._tool.name)
        await self._session.journal.end(self._grant, answer.error.message)
        return {"question": answer.error.message}

    async def answer(self) -> tools_pb2.CallToolResponse:
        """Makes the call."""
        session, tool = self._session, self._tool
        session.check_stop()
        if self._manager is not None:
            session.told(self._manager.run_id, service=tool.executor, at_least_once=tool.at_least_once)
        run = self._run.of_node(acts=not tool.read_only)
        # Calls are counted where the tool begins; what is left here is time.
        allowance = Allowance(session.spent, {**session.budget, "model_calls": 0, "tool_calls": 0, "tokens": 0})
        client = self._connections.tools(EXECUTORS[tool.executor])
        # Of a call that only reads nobody need know what came of it.
        held = nullcontext() if tool.read_only or self._visit.limit is None else self._visit.limit.held()
        with collecting(acts=not tool.read_only), allowing(allowance), held:
            try:
                answer = await client.call(NodeContext(run, self._visit.task_id), tool.name, self._arguments, self._key)
            except DependencyAway as away:
                self._visit.away = away, away
                raise
            if self._manager is not None:
                # LangChain tells of no end where the node is broken off now.
                session.finish(self._manager.run_id, answer.error.reason or OK)
        return answer

    @property
    def _grant(self) -> str:
        return f"grant {self._key}"


def _said(answer: tools_pb2.CallToolResponse) -> str:
    if answer.HasField("error"):
        raise ToolException(refusal(answer.error.reason, answer.error.message))
    return answer.output.text


def operation_id(visit: Visit, name: str, arguments: Mapping[str, Any], call_id: str) -> str:
    """Returns what a call is known by within its run: by its task, which is the same when it runs again, and its id.

    Models repeat ids from one turn to the next, so that an id alone is not enough. A call that a node makes itself has
    none, and is the first, second, … of its kind.
    """
    if not call_id:
        kind = _text([name, _plain(arguments)])
        visit.unnamed[kind] = visit.unnamed.get(kind, 0) + 1
        call_id = f"{hashlib.sha256(kind.encode()).hexdigest()[:16]}-{visit.unnamed[kind]}"
    elif len(call_id) > _LONGEST_CALL_ID:
        call_id = hashlib.sha256(call_id.encode()).hexdigest()
    return f"{call_id}@{visit.task_id}"


def _plain(value: Any) -> Any:
    """Returns a value as JSON, the same in every process: sets have an order, what JSON has no word for is its type.

    An object's address is another one each time, and so is the order of a set of texts.
    """
    match value:
        case None | str() | bool() | int() | float():
            return value
        case Mapping():
            return {key if isinstance(key, str) else _text(_plain(key)): _plain(part) for key, part in value.items()}
        case list() | tuple() | deque():
            return [_plain(each) for each in value]
        case set() | frozenset():
            return sorted((_plain(each) for each in value), key=_text)
        case BaseModel():
            named = {name: getattr(value, name) for name in type(value).model_fields}
            return _plain({**named, **(value.model_extra or {})})
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        case _:
            return to_jsonable_python(value, bytes_mode="base64", fallback=lambda each: type(each).__qualname__)


def _text(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True)


def _session() -> HostedSession:
    session = current_session()
    if session is None:
        raise PlatformMissing("a tool of the platform was called outside of a run")
    return session


@contextmanager
def _called_by(tool_call_id: str | None) -> Iterator[None]:
    token = _call_id.set(tool_call_id or "")
    try:
        yield
    finally:
        _call_id.reset(token)


def from_thread(session: HostedSession, work: Coroutine[Any, Any, _T]) -> _T:
    """Returns what comes of work on the platform's loop, for one in a thread. Raises PlatformMissing on the loop."""
    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is session.loop:
        work.close()
        raise PlatformMissing("it would wait for itself: in a coroutine await `ainvoke`, or make the function one")
    return asyncio.run_coroutine_threadsafe(work, session.loop).result()


async def on_platform(session: HostedSession, work: Coroutine[Any, Any, _T]) -> _T:
    """Returns what comes of work on the platform's loop, for a coroutine of whichever loop."""
    if asyncio.get_running_loop() is session.loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, session.loop))
