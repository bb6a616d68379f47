"""News of a run for the browser that shows it, as server-sent events.

An event says that there is something new, and not what: the browser asks for the page again. `changed` is a step, and
of which node if it has ended, or a question, `ended` the end, `away` a gateway that does not answer, for as long as
that lasts, and `refused` that there will be no more. Only what a model says while it says it stands in the event:
`said` is a part of that, `void` that what a node has said so far does not stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from signalbox.v1 import runs_pb2

from services.console.errors import ConsoleError, TooLate
from services.console.gateway import Gateway
from services.console.settings import ConsoleSettings
from services.console.team_caller import current_caller
from services.kit.text.json_text import json_text
from services.kit.text.printing import printable
from services.kit.wire.event_kinds import RUN_ENDED, TOKEN_CHUNK

CHANGED, ENDED, AWAY, REFUSED = "changed", "ended", "away", "refused"
SAID, VOID = "said", "void"


class RunFollower:
    """Follows runs, each for one browser."""

    def __init__(self, gateway: Gateway, settings: ConsoleSettings, closing: asyncio.Event) -> None:
        self._gateway = gateway
        self._settings = settings
        self._closing = closing

    async def follow(self, run_id: str) -> AsyncIterator[str]:
        """Yields events until the run has ended, however often the gateway is away, or until the console closes.

        Of a team's console it ends with the caller's token as well: a browser comes again by itself, with a new one.
        """
        news = self._news(run_id)
        closing = asyncio.ensure_future(self._closing.wait())
        following = asyncio.ensure_future(anext(news, None))
        caller = current_caller()
        try:
            while True:
                left_s = caller.left_s() if caller else None
                await asyncio.wait((following, closing), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                event = following.result() if following.done() else None
                if event is None:
                    return
                yield event
                following = asyncio.ensure_future(anext(news, None))
        finally:
            closing.cancel()
            following.cancel()
            await asyncio.wait((following, closing))
            await news.aclose()

    async def _news(self, run_id: str) -> AsyncGenerator[str, None]:
        after_sequence, was_away = 0, False
        while True:
            try:
                if was_away:
                    await self._state(run_id)
                    was_away = False
                    yield _changed()  # perhaps not the run, but what is said of the gateway
                async for event in self._gateway.watch(run_id, after_sequence):
                    if not event.sequence:  # told once, and kept nowhere
                        if event.WhichOneof("event"):
                            yield _while_said(event)
                        continue
                    after_sequence = event.sequence
                    is_over = event.HasField(RUN_ENDED)
                    yield _event(ENDED) if is_over else _changed(_ended_node(event))
                    if is_over:
                        return
                await self._answered(run_id)
            except ConsoleError as error:
                if not (error.tries_again or isinstance(error, TooLate)):
                    yield _event(REFUSED)
                    return
                was_away = True
                yield _event(AWAY)
                await asyncio.sleep(self._settings.gateway_retry_s)

    async def _answered(self, run_id: str) -> None:
        """Waits until a run awaits no answer any more: until then it has no events."""
        state = runs_pb2.RUN_STATE_AWAITING_INPUT
        while state == runs_pb2.RUN_STATE_AWAITING_INPUT:
            await asyncio.sleep(self._settings.answer_poll_s)
            state = await self._state(run_id)

    async def _state(self, run_id: str) -> runs_pb2.RunState:
        request = runs_pb2.GetRunRequest(run_id=run_id)
        return (await self._gateway.call(self._gateway.runs.GetRun, request)).run.state


def _event(kind: str, data: str = "") -> str:
    return f"event: {kind}\ndata: {data or kind}\n\n"


def _changed(ended_node: str = "") -> str:
    return _event(CHANGED, json_text({"node": printable(ended_node)}, indent=None))


def _ended_node(event: runs_pb2.RunEvent) -> str:
    """Returns the node whose step has ended; empty where none has."""
    return event.decision.node or event.node_completed.node


def _while_said(event: runs_pb2.RunEvent) -> str:
    """Returns what a model says, with nothing in it that would steer the reader, or that it does not stand."""
    if not event.HasField(TOKEN_CHUNK):
        dropped = event.tokens_reset.cause == runs_pb2.TOKENS_RESET_CAUSE_DROPPED
        return _event(VOID, json_text({"node": event.tokens_reset.node, "stands": dropped}, indent=None))
    chunk = event.token_chunk
    told = {
        "node": printable(chunk.node),
        "message": chunk.message_id,
        "offset": chunk.offset,
        "length": len(chunk.text),
        "text": printable(chunk.text),
        "provisional": chunk.provisional,
    }
    return _event(SAID, json_text(told, indent=None))
