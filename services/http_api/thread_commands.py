"""Commands to a thread, as LangGraph's clients give them beside its stream: a run, an answer, what stands in it.

An answer to a command says itself whether it was done. What is wrong with a request as such, its token among it, and a
gateway that is away, are problem documents with their status, as everywhere here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from services.http_api.errors import ApiError, Conflict, Invalid, NotAllowed, NotFound, NotOffered
from services.http_api.forks import asking_of
from services.http_api.gateway import Caller, Gateway
from services.http_api.interrupts import answer_of, interrupts_of
from services.http_api.json_bodies import BodyReader, Json
from services.http_api.reader import Wanted
from services.http_api.run_request import MESSAGES, Body, RunBody, key_of, read_body
from services.http_api.runs import RunRoutes
from services.http_api.thread_events import run_id_of, status_of
from services.http_api.thread_states import MOST_STATES, ThreadStates, place_of
from services.http_api.thread_stream import MOST_NAMESPACES, Namespace, ThreadBells
from services.http_api.threads import thread_id_of

# Commands of the protocol that are not offered, and what to do instead.
# Whoever streams a thread hears what models say.
_LISTENED_TO: Final = Wanted([MESSAGES])
_REFUSED: Final = {
    "subscription.subscribe": "each stream of POST /threads/…/stream/events is a subscription; open one",
    "subscription.unsubscribe": "each stream of POST /threads/…/stream/events is a subscription; close it",
    "subscription.reconnect": "open the stream again, with `since`",
    "input.inject": "nothing is put into a run that goes on; start one with `multitask_strategy`",
    "state.fork": "start a run with the checkpoint as `config.configurable.checkpoint_id`",
}
# Of a problem, how the protocol calls it; others are told by their status.
_CODES: Final[Mapping[type[ApiError], str]] = {
    NotOffered: "not_supported",
    NotAllowed: "permission_denied",
    NotFound: "invalid_argument",
    Conflict: "invalid_argument",
    Invalid: "invalid_argument",
}
# Which events a command was applied behind is the stream's to say: its numbers are told nowhere else.
_META: Final = {"applied_through_seq": 0}


class CommandError(Exception):
    """A command that can't be done, with the protocol's word for why."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class CommandBody(Body):
    """A command: its number among those of the client, what to do, and with what."""

    id: Annotated[int, Field(ge=0, lt=1 << 53)]
    method: Annotated[str, Field(min_length=1, max_length=64)]
    params: dict[str, Any] = Field(default_factory=dict)


class StartBody(Body):
    """A run to start. The strategy has two names, of which clients send one or both."""

    assistant_id: Annotated[str, Field(min_length=1, max_length=64)]
    input: Any = None
    config: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
    multitask_strategy: Any = None
    multitaskStrategy: Any = None  # noqa: N815 - the protocol's
    langsmith_tracer: dict[str, Any] = Field(default_factory=dict)

    def run(self) -> RunBody:
        """Returns it as the body of a run."""
        strategy = self.multitask_strategy or self.multitaskStrategy
        given = {"assistant_id": self.assistant_id, "input": self.input, "config": self.config}
        return read_body(RunBody, {**given, "metadata": self.metadata, "multitask_strategy": strategy})


class OneResponse(Body):
    """An answer to an interrupt, which may be null."""

    interrupt_id: Annotated[str, Field(min_length=1, max_length=256)]
    response: Any = None
    namespace: Namespace = Field(default_factory=list)


class RespondBody(Body):
    """Answers to what the thread asks: one, or several together."""

    responses: Annotated[list[OneResponse], Field(min_length=1, max_length=MOST_NAMESPACES)] | None = None
    interrupt_id: Annotated[str, Field(min_length=1, max_length=256)] = ""
    response: Any = None
    namespace: Namespace = Field(default_factory=list)
    update: Any = None
    goto: Any = None
    config: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
    strict_resume: bool = False

    def answers(self) -> dict[str, Any]:
        """Returns the answers by their interrupts. Raises Invalid, NotOffered."""
        refused = {
            "update": "change the state by POST /threads/…/state",
            "goto": "a run goes where its graph leads",
            "config": "the run that is answered has its own",
            "metadata": "the run that is answered has its own",
        }
        for name, words in refused.items():
            if getattr(self, name):
                raise NotOffered(f"{name}: is not taken with an answer; {words}")
        if self.responses is not None:
            return {each.interrupt_id: each.response for each in self.responses}
        if not self.interrupt_id:
            raise Invalid("interrupt_id: is missing; or give several `responses`")
        return {self.interrupt_id: self.response}


class ValuesBody(Body):
    """Which fields of the state to return."""

    namespace: Namespace = Field(default_factory=list)
    keys: list[str] | None = None


class CheckpointsBody(Body):
    """Which checkpoints to return."""

    namespace: Namespace = Field(default_factory=list)
    limit: Annotated[int, Field(ge=1, le=MOST_STATES)] = 10
    before: str = ""


class TreeBody(Body):
    """Of which run to return the tree."""

    run_id: str = ""


class ThreadCommands:
    """Handles commands to threads."""

    def __init__(self, gateway: Gateway, bodies: BodyReader, runs: RunRoutes, bells: ThreadBells) -> None:
        self._gateway = gateway
        self._bodies = bodies
        self._runs = runs
        self._bells = bells
        self._handlers: Mapping[str, Callable[[Caller, str, Any, str], Awaitable[dict[str, Any]]]] = {
            "run.start": self._start,
            "input.respond": self._respond,
            "state.get": self._state,
            "state.listCheckpoints": self._checkpoints,
            "agent.getTree": self._tree,
        }

    async def command(self, request: Request) -> Response:
        """Does what a command says."""
        caller, thread_id = self._gateway.caller(request), thread_id_of(request)
        body = read_body(CommandBody, await self._bodies.read(request))
        try:
            result = await self._done(caller, thread_id, body, key_of(request))
        except CommandError as error:
            return _refusal(body, error.code, error.detail)
        except ApiError as error:
            if (code := _CODES.get(type(error))) is None:
                raise
            return _refusal(body, code, error.in_full)
        return Json({"type": "success", "id": body.id, "result": result, "meta": _META})

    async def _done(self, caller: Caller, thread_id: str, body: CommandBody, key: str) -> dict[str, Any]:
        if (handler := self._handlers.get(body.method)) is not None:
            return await handler(caller, thread_id, body.params, key)
        # Whoever is nobody is told so first.
        await ThreadStates(caller, thread_id).runs()
        if words := _REFUSED.get(body.method):
            raise NotOffered(f"{body.method} is not offered: {words}")
        there_are = ", ".join(self._handlers)
        raise CommandError("unknown_command", f"there is no command {body.method!r}; there are {there_are}")

    async def _start(self, caller: Caller, thread_id: str, params: Any, key: str) -> dict[str, Any]:
        started = await self._runs.started(caller, read_body(StartBody, params).run(), thread_id, key, _LISTENED_TO)
        self._bells.ring(thread_id)
        return {"run_id": started.run_id}

    async def _respond(self, caller: Caller, thread_id: str, params: Any, _key: str) -> dict[str, Any]:
        answers = read_body(RespondBody, params).answers()
        asking = asking_of(await ThreadStates(caller, thread_id).runs())
        asked = [each["id"] for each in interrupts_of(asking.input_request)] if asking else []
        unknown = sorted(answers.keys() - set(asked))
        if asking is None or unknown:
            asks = f"it asks {', '.join(asked)}" if asked else "it asks nothing"
            words = f"the thread does not ask {unknown[0][:64]!r}, or not any more: {asks}"
            raise CommandError("no_such_interrupt", words)
        # Of the question that was looked at: another one may be open by now, which this does not answer.
        answer = answer_of(asking, answers)
        answer.token_chunks = True
        try:
            await caller.call(caller.stubs.runs.ResumeRun, answer)
        except Conflict as error:
            raise CommandError("no_such_interrupt", error.in_full) from error
        self._bells.ring(thread_id)
        return {}

    async def _state(self, caller: Caller, thread_id: str, params: Any, _key: str) -> dict[str, Any]:
        body = read_body(ValuesBody, params)
        _check_outermost(body.namespace)
        head = await ThreadStates(caller, thread_id).head()
        values = {name: each for name, each in head["values"].items() if body.keys is None or name in body.keys}
        found = head["checkpoint"]
        return {"values": values, **({"checkpoint": {"id": found["checkpoint_id"]}} if found else {})}

    async def _checkpoints(self, caller: Caller, thread_id: str, params: Any, _key: str) -> dict[str, Any]:
        body = read_body(CheckpointsBody, params)
        _check_outermost(body.namespace)
        before = place_of(body.before) if body.before else None
        found = await ThreadStates(caller, thread_id).history(body.limit, before=before)
        return {
            "checkpoints": [
                {
                    "id": each["checkpoint"]["checkpoint_id"],
                    "timestamp": each["created_at"],
                    "step": each["metadata"]["step"],
                    "metadata": each["metadata"],
                }
                for each in found
            ]
        }

    async def _tree(self, caller: Caller, thread_id: str, params: Any, _key: str) -> dict[str, Any]:
        body = read_body(TreeBody, params)
        runs = await ThreadStates(caller, thread_id).runs()
        run = next((each for each in runs if run_id_of(body.run_id) in ("", each.run_id)), None)
        if run is None:
            raise CommandError("no_such_run", "the thread has no such run")
        return {"tree": {"namespace": [], "status": status_of(run)[0], "graph_name": run.agent}}


def _check_outermost(namespace: list[str]) -> None:
    if namespace:
        raise CommandError("no_such_namespace", "states of graphs inside nodes are not told")


def _refusal(body: CommandBody, code: str, detail: str) -> Response:
    return Json({"type": "error", "id": body.id, "error": code, "message": detail, "meta": _META})
