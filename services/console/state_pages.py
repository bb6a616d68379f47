"""The page of the state that a step of a run left, and for a hosted graph a form to go on from there."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from signalbox.v1 import runs_pb2, threads_pb2
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from services.console.errors import BadRequest, ConsoleError, NotFound
from services.console.explanation_page.result import Result, json_block, state_blocks
from services.console.filters import Filters
from services.console.forms import read_form
from services.console.gateway import Gateway
from services.console.json_values import json_struct
from services.console.settings import ConsoleSettings
from services.console.showing import page
from services.kit.wire.input_schema import HOSTED

FIELDS = ("step", "checkpoint")
# What a message has room for.
MOST_STEPS = 2**31


class StatePages:
    """States of runs, for whoever they are of."""

    def __init__(self, gateway: Gateway, settings: ConsoleSettings) -> None:
        self._gateway = gateway
        self._settings = settings

    def routes(self) -> Sequence[Route]:
        """Returns where these pages are."""
        return (
            Route("/runs/{run_id}/state", self.state),
            Route("/runs/{run_id}/state", self.fork, methods=["POST"]),
        )

    async def state(self, request: Request) -> Response:
        """Shows the state after a step, or at the checkpoint of a decision; by default the last."""
        filters = Filters.of(request.query_params, FIELDS)
        run_id = request.path_params["run_id"]
        found = await self._state(run_id, filters["step"])
        if filters["checkpoint"] and filters["checkpoint"] != found.state.checkpoint.checkpoint_id:
            steps = [each.step for each in found.checkpoints if each.checkpoint_id == filters["checkpoint"]]
            if not steps:
                raise NotFound("The state that this step left is no longer kept.")
            found = await self._state(run_id, str(steps[0]))
        return await self._page(run_id, found)

    async def fork(self, request: Request) -> Response:
        """Goes on from a step of a run of a hosted graph in a new run, with its state changed as asked."""
        run_id = request.path_params["run_id"]
        form = await read_form(request, self._settings.max_form_bytes)
        names = ("step", "update", "as_node", "request_id")
        step, update, as_node, request_id = (form.get(name, "").strip() for name in names)
        try:
            wanted = threads_pb2.ForkRunRequest(
                run_id=run_id, step=_step_of(step), as_node=as_node, request_id=request_id
            )
            if update:
                wanted.update.CopyFrom(_update_of(update))
            made = await self._gateway.call(self._gateway.threads.ForkRun, wanted)
        except ConsoleError as error:
            found = await self._state(run_id, step)
            return await self._page(run_id, found, error=error, update=update, as_node=as_node, request_id=request_id)
        return RedirectResponse(f"/runs/{made.run.run_id}", status_code=303)

    async def _state(self, run_id: str, step: str) -> threads_pb2.GetRunStateResponse:
        asked = threads_pb2.GetRunStateRequest(run_id=run_id, step=_step_of(step) if step else None)
        return await self._gateway.call(self._gateway.threads.GetRunState, asked)

    async def _page(
        self,
        run_id: str,
        found: threads_pb2.GetRunStateResponse,
        *,
        error: ConsoleError | None = None,
        update: str = "",
        as_node: str = "",
        request_id: str = "",
    ) -> Response:
        run = (await self._gateway.call(self._gateway.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id))).run
        values = MessageToDict(found.state.values)
        return page(
            "state.html.j2",
            "runs",
            status=error.status if error else 200,
            run=run,
            state=found.state,
            checkpoints=found.checkpoints,
            result=Result(state_blocks(values), json_block("", values)),
            may_fork=run.input.WhichOneof("agent") == HOSTED,
            error=error,
            update=update,
            as_node=as_node,
            # The same again, where it can't be known whether the first was taken.
            request_id=request_id or str(uuid4()),
        )


def _step_of(text: str) -> int:
    try:
        step = int(text)
    except ValueError as error:
        raise BadRequest(f"{text[:20]!r} is no number of a step.") from error
    if not -MOST_STEPS <= step < MOST_STEPS:
        raise BadRequest(f"{text[:20]!r} is no number of a step.")
    return step


def _update_of(text: str) -> Struct:
    try:
        return json_struct(text)
    except ValueError as error:
        raise BadRequest(f"The change of the state {error}.") from error
