"""Pages that start runs: a form of an agent's input, filled with that of an earlier run if asked, and cancelling."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.struct_pb2 import Struct
from signalbox.v1 import agents_pb2, hosted_pb2, runs_pb2
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from services.console.agent_names import list_agents
from services.console.errors import ConsoleError
from services.console.filters import Filters
from services.console.forms import read_form
from services.console.gateway import Gateway
from services.console.input_form import InputField, as_written, fields_of, input_of
from services.console.json_values import json_struct
from services.console.settings import ConsoleSettings
from services.console.showing import page
from services.kit.text.json_text import json_text
from services.kit.wire.input_schema import HOSTED, agents_known, is_hosted, schema_of

FIELDS = ("agent", "from", "thread")
SENT = ("agent", "thread", "labels", "record", "request_id")
# How what the gateway masks begins.
MASKED = "[redacted: "
# What a hosted graph is given beside its input, as JSON.
BESIDE = ("context", "configurable")


class StartPages:
    """The form that starts a run."""

    def __init__(self, gateway: Gateway, settings: ConsoleSettings) -> None:
        self._gateway = gateway
        self._settings = settings

    def routes(self) -> Sequence[Route]:
        """Returns where these pages are."""
        return (
            Route("/new", self.form),
            Route("/new", self.start, methods=["POST"]),
            Route("/runs/{run_id}/cancel", self.cancel, methods=["POST"]),
        )

    async def form(self, request: Request) -> Response:
        """Shows the form of an agent's input, with the input of an earlier run if one is named."""
        filters = Filters.of(request.query_params, FIELDS)
        names = [each.name for each in await list_agents(self._gateway) if _can_be_started(each)]
        earlier = runs_pb2.Run()
        if filters["from"]:
            asked = runs_pb2.GetRunRequest(run_id=filters["from"])
            earlier = (await self._gateway.call(self._gateway.runs.GetRun, asked)).run
        agent = filters.choice("agent", names, earlier.agent or next(iter(names), ""))
        given = earlier.input if earlier.agent == agent else runs_pb2.RunInput()
        fields = await self._fields(agent, _values(given)) if agent else []
        is_masked = MASKED in json_text(MessageToDict(given))
        labels = " ".join(f"{key}={value}" for key, value in sorted(earlier.labels.items()))
        sent = {"agent": agent, "thread": filters["thread"], "labels": labels, "request_id": str(uuid4())}
        sent["record"] = "on" if earlier.recorded else ""
        for name in BESIDE:
            is_given = given.HasField(HOSTED) and given.graph.HasField(name)
            sent[name] = json_text(MessageToDict(getattr(given.graph, name))) if is_given else ""
        return self._page(names, sent, fields, filters.problems, is_masked=is_masked)

    async def start(self, request: Request) -> Response:
        """Starts a run; what is wrong with its input is told at the fields, and what was written stays there."""
        form = await read_form(request, self._settings.max_form_bytes)
        sent = {name: form.get(name, "") for name in (*SENT, *BESIDE)}
        names = [each.name for each in await list_agents(self._gateway) if _can_be_started(each)]
        filters = Filters({"labels": sent["labels"]})
        fields = as_written(await self._fields(sent["agent"], {}) if sent["agent"] in names else [], form)
        values, problems = input_of(fields, form)
        beside, wrong_beside = _beside(sent)
        problems |= wrong_beside
        problems |= {} if fields else {"agent": f"not one of {', '.join(names)}"}
        create = runs_pb2.CreateRunRequest(
            thread_id=sent["thread"],
            labels=filters.labels("labels"),
            record=bool(sent["record"]),
            request_id=sent["request_id"] or str(uuid4()),
        )
        problems |= filters.problems
        error: ConsoleError | None = None
        if not problems:
            try:
                create.input.CopyFrom(_input(sent["agent"], values, beside))
                run = (await self._gateway.call(self._gateway.runs.CreateRun, create)).run
                return RedirectResponse(f"/runs/{run.run_id}", status_code=303)
            except (ParseError, ValueError, TypeError) as wrong:
                problems[""] = str(wrong)
            except ConsoleError as refused:
                error = refused
                problems |= _told(refused, sent["agent"])
        return self._page(names, sent, fields, problems, error)

    async def cancel(self, request: Request) -> Response:
        """Asks a run to stop."""
        run_id = request.path_params["run_id"]
        await self._gateway.call(self._gateway.runs.CancelRun, runs_pb2.CancelRunRequest(run_id=run_id))
        return RedirectResponse(f"/runs/{run_id}", status_code=303)

    async def _fields(self, agent: str, values: Mapping[str, Any]) -> list[InputField]:
        if agent in agents_known():
            return fields_of(schema_of(agent), values)
        asked = agents_pb2.ListAgentsRequest(name=agent)
        found = (await self._gateway.call(self._gateway.agents.ListAgents, asked)).agents
        schema = next((each.input_schema for each in found if each.name == agent), None)
        # A struct keeps no order.
        return fields_of(json.loads(json_text(MessageToDict(schema))), values) if schema else []

    def _page(
        self,
        names: Sequence[str],
        sent: Mapping[str, str],
        fields: Sequence[InputField],
        problems: Mapping[str, str],
        error: ConsoleError | None = None,
        *,
        is_masked: bool = False,
    ) -> Response:
        status = error.status if error else 400 if problems else 200
        return page(
            "new.html.j2",
            "runs",
            status=status,
            agents=names,
            sent=sent,
            fields=fields,
            beside=() if sent["agent"] in agents_known() else BESIDE,
            problems=problems,
            error=error,
            is_masked=is_masked,
        )


def _can_be_started(agent: agents_pb2.Agent) -> bool:
    """Says whether this release knows what an agent's input is like."""
    return agent.name in agents_known() or is_hosted(agent)


def _values(given: runs_pb2.RunInput) -> Mapping[str, Any]:
    field = given.WhichOneof("agent")
    if field is None:
        return {}
    asked = given.graph.input if field == HOSTED else getattr(given, field)
    values: Mapping[str, Any] = MessageToDict(asked, preserving_proto_field_name=True)
    return values


def _beside(sent: Mapping[str, str]) -> tuple[Mapping[str, Struct], Mapping[str, str]]:
    """Returns what a graph is given beside its input, and what is wrong with it, by the names of the form's fields."""
    found, problems = {}, {}
    for name in BESIDE:
        if sent[name].strip():
            try:
                found[name] = json_struct(sent[name])
            except ValueError as error:
                problems[name] = str(error)
    return found, problems


def _input(agent: str, values: Mapping[str, Any], beside: Mapping[str, Struct]) -> runs_pb2.RunInput:
    """Returns an input of these values. Raises ParseError, ValueError, TypeError."""
    if agent in agents_known():
        return ParseDict({agent: values}, runs_pb2.RunInput())
    asked = hosted_pb2.GraphInput(agent=agent, **beside)
    asked.input.update(values)
    return runs_pb2.RunInput(graph=asked)


def _told(error: ConsoleError, agent: str) -> Mapping[str, str]:
    """Returns what the gateway refuses by the names of the form's fields; the rest, and what has none, as a whole."""
    problems = {}
    for violation in error.violations:
        path = violation.field
        for beginning in (f"input.{HOSTED}.input", f"input.{agent}"):
            path = f"input{path.removeprefix(beginning)}" if path.startswith(beginning) else path
        path = path.removeprefix(f"input.{HOSTED}.")
        problems[{"thread_id": "thread"}.get(path, path.partition("[")[0])] = violation.description
    return problems
