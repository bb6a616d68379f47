"""The operations of the API, of which its routes and its OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field
from signalbox.v1 import agents_pb2
from starlette.requests import Request
from starlette.responses import Response

from services.http_api.assistants import all_assistants, find_assistant
from services.http_api.errors import Invalid, NotOffered
from services.http_api.gateway import Gateway
from services.http_api.json_bodies import BodyReader, Json
from services.http_api.reader import CANCEL_ON_DISCONNECT
from services.http_api.run_request import Body, RunBody, read_body
from services.http_api.runs import CHECKPOINT_ID, Batch, CancelManyBody, RunRoutes
from services.http_api.store import DeleteItemBody, NamespacesBody, PutItemBody, SearchItemsBody, StoreRoutes
from services.http_api.thread_commands import CommandBody, ThreadCommands
from services.http_api.thread_stream import StreamBody, ThreadStreams
from services.http_api.threads import (
    HistoryBody,
    PruneBody,
    SearchBody,
    StateBody,
    StateUpdateBody,
    ThreadBody,
    ThreadRoutes,
    ThreadUpdateBody,
)

Handler = Callable[[Request], Awaitable[Response]]
CRONS: Final = "crons are not offered yet: have a scheduler of yours create the runs"
ASSISTANTS: Final = "assistants are the platform's agents, which are deployed: give a config and a context with a run"
NOT_OFFERED: Final = "Not offered"
JOINED_THREADS: Final = "this stream is not offered: POST /threads/…/stream/events is, and streams of runs"
METADATA: Final = "states have no metadata of their own: keep them with the thread, or give them with a run"


class AssistantSearchBody(Body):
    """What assistants to find."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0
    graph_id: str | None = None
    name: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] = "name"
    sort_order: Literal["asc", "desc"] = "asc"
    select: list[str] | None = None


class VersionsBody(Body):
    """What versions to list."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0
    metadata: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """A method of an address, and the parameters of its query. Without `public` it needs a token."""

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    body: type[BaseModel] | None = None
    public: bool = False
    streams: bool = False
    query: tuple[str, ...] = ()

    @property
    def is_offered(self) -> bool:
        """Whether it is more than words."""
        return self.summary != NOT_OFFERED

    def check_query(self, given: Iterable[str]) -> None:
        """Raises Invalid for a parameter that would be passed over."""
        if not self.is_offered or self.public:
            return
        for name in sorted(set(given) - set(self.query)):
            known = f"there are {', '.join(self.query)}" if self.query else "there are none"
            raise Invalid(f"{name[:60]}: is no parameter of the query of {self.name}; {known}")


class AssistantRoutes:
    """Handles what is asked of assistants."""

    def __init__(self, gateway: Gateway, bodies: BodyReader) -> None:
        self._gateway = gateway
        self._bodies = bodies

    async def search(self, request: Request) -> Response:
        """Finds assistants, by name."""
        body, found = await self._found(request)
        page = found[body.offset : body.offset + body.limit]
        more = body.offset + body.limit
        headers = {"x-pagination-next": str(more)} if more < len(found) else {}
        return Json(
            [{name: each for name, each in one.items() if not body.select or name in body.select} for one in page],
            headers=headers,
        )

    async def count(self, request: Request) -> Response:
        """Counts assistants."""
        return Json(len((await self._found(request))[1]))

    async def get(self, request: Request) -> Response:
        """Returns an assistant."""
        return Json((await self._assistant(request)).document())

    async def versions(self, request: Request) -> Response:
        """Returns the one version that is deployed."""
        self._gateway.caller(request)
        body = read_body(VersionsBody, await self._bodies.read(request))
        assistant = await self._assistant(request)
        is_meant = body.offset == 0 and assistant.matches(graph_id=None, name=None, metadata=body.metadata)
        return Json([assistant.document()] if is_meant else [])

    async def schemas(self, request: Request) -> Response:
        """Returns an assistant's JSON Schemas."""
        return Json((await self._assistant(request)).schemas())

    async def graph(self, request: Request) -> Response:
        """Returns an assistant's graph; nodes of graphs inside its nodes are not drawn."""
        return Json((await self._assistant(request)).graph())

    async def subgraphs(self, request: Request) -> Response:
        """Returns nothing: graphs inside nodes are not told apart."""
        await self._assistant(request)
        return Json({})

    async def _assistant(self, request: Request) -> Any:
        return await find_assistant(self._gateway.caller(request), request.path_params["assistant_id"])

    async def _found(self, request: Request) -> tuple[AssistantSearchBody, list[dict[str, Any]]]:
        caller = self._gateway.caller(request)
        body = read_body(AssistantSearchBody, await self._bodies.read(request))
        found = [
            each.document()
            for each in await all_assistants(caller)
            if each.matches(graph_id=body.graph_id, name=body.name, metadata=body.metadata)
        ]
        found.sort(key=lambda each: str(each[body.sort_by]), reverse=body.sort_order == "desc")
        return body, found


def operations(
    gateway: Gateway,
    assistants: AssistantRoutes,
    threads: ThreadRoutes,
    store: StoreRoutes,
    runs: RunRoutes,
    thread_streams: ThreadStreams,
    commands: ThreadCommands,
) -> list[Operation]:
    """Returns all that is served, in the order in which addresses are tried."""

    def not_offered(words: str) -> Handler:
        async def refuse(request: Request) -> Response:
            # Whoever is nobody is told so first.
            await gateway.caller(request).call(gateway.agents.ListAgents, agents_pb2.ListAgentsRequest(name="-"))
            raise NotOffered(words)

        return refuse

    in_thread = "/threads/{thread_id}"
    found = [
        Operation("GET", "/ok", "ok", "Says that the server serves", _ok, public=True),
        Operation("GET", "/healthz", "healthz", "Says that the server serves", _ok, public=True),
        Operation("GET", "/info", "info", "What serves here", _info, public=True),
        Operation(
            "POST", "/assistants/search", "search_assistants", "Find agents", assistants.search, AssistantSearchBody
        ),
        Operation(
            "POST", "/assistants/count", "count_assistants", "Count agents", assistants.count, AssistantSearchBody
        ),
        Operation("POST", "/threads", "create_thread", "Name a thread", threads.create, ThreadBody),
        Operation("POST", "/threads/search", "search_threads", "Find threads", threads.search, SearchBody),
        Operation("POST", "/threads/prune", "prune_threads", "Delete threads", threads.prune, PruneBody),
        Operation("POST", "/threads/count", "count_threads", "Count threads", threads.count, SearchBody),
        Operation("GET", in_thread, "get_thread", "Return a thread", threads.get, query=("include",)),
        Operation("PATCH", in_thread, "update_thread", "Keep metadata", threads.update, ThreadUpdateBody),
        Operation("DELETE", in_thread, "delete_thread", "Delete a thread with its runs", threads.delete),
        Operation("POST", in_thread + "/copy", "copy_thread", "Copy a thread", threads.copy),
        Operation(
            "GET",
            in_thread + "/state",
            "get_state",
            "Return a thread's state",
            threads.state,
            query=("subgraphs", "select"),
        ),
        Operation(
            "POST", in_thread + "/state", "update_state", "Change a state", threads.update_state, StateUpdateBody
        ),
        Operation(
            "POST", in_thread + "/state/checkpoint", "get_state_at", "Return a state", threads.state_at, StateBody
        ),
        Operation(
            "GET",
            in_thread + "/state/{checkpoint_id}",
            "get_state_of",
            "Return a state",
            threads.state,
            query=("subgraphs", "select"),
        ),
        Operation(
            "GET",
            in_thread + "/history",
            "list_history",
            "Return states, newest first",
            threads.history,
            query=("limit", "before"),
        ),
        Operation("POST", in_thread + "/history", "get_history", "Return states", threads.history, HistoryBody),
        Operation("POST", "/runs/batch", "create_runs", "Create several runs", runs.create_batch, Batch),
        Operation(
            "POST",
            "/runs/cancel",
            "cancel_runs",
            "Ask runs to stop",
            runs.cancel_many,
            CancelManyBody,
            query=("action",),
        ),
        Operation(
            "GET",
            in_thread + "/runs",
            "list_runs",
            "List a thread's runs",
            runs.all_of_thread,
            query=("limit", "offset", "status", "select"),
        ),
    ]
    for path, method in (
        ("/runs/crons", "POST"),
        ("/runs/crons/search", "POST"),
        ("/runs/crons/count", "POST"),
        ("/runs/crons/{cron_id}", "DELETE"),
        ("/runs/crons/{cron_id}", "PATCH"),
        (in_thread + "/runs/crons", "POST"),
    ):
        found.append(_refused(method, path, not_offered(CRONS)))
    found += [
        Operation("PUT", "/store/items", "put_item", "Write an item", store.put, PutItemBody),
        Operation(
            "GET", "/store/items", "get_item", "Return an item", store.get, query=("namespace", "key", "refresh_ttl")
        ),
        Operation("DELETE", "/store/items", "delete_item", "Delete an item", store.delete, DeleteItemBody),
        Operation("POST", "/store/items/search", "search_items", "Find items", store.search, SearchItemsBody),
        Operation("POST", "/store/namespaces", "list_namespaces", "List namespaces", store.namespaces, NamespacesBody),
    ]
    for path, method in (
        ("/assistants", "POST"),
        ("/assistants/{assistant_id}", "PATCH"),
        ("/assistants/{assistant_id}", "DELETE"),
        ("/assistants/{assistant_id}/latest", "POST"),
    ):
        found.append(_refused(method, path, not_offered(ASSISTANTS)))
    found += [
        Operation("POST", in_thread + "/commands", "command_thread", "Give a command", commands.command, CommandBody),
        Operation(
            "POST",
            in_thread + "/stream/events",
            "stream_thread",
            "Stream a thread",
            thread_streams.stream,
            StreamBody,
            streams=True,
        ),
        _refused("GET", in_thread + "/stream", not_offered(JOINED_THREADS)),
        _refused("PATCH", in_thread + "/state", not_offered(METADATA)),
    ]
    for prefix, of in (("", ""), (in_thread, "thread_")):
        found += _run_operations(prefix + "/runs", of, runs)
    for path, name, summary, handler, query in (
        ("", "get_assistant", "Return an agent", assistants.get, ()),
        ("/schemas", "get_schemas", "Return an agent's JSON Schemas", assistants.schemas, ()),
        ("/graph", "get_graph", "Return an agent's graph", assistants.graph, ("xray",)),
        ("/subgraphs", "get_subgraphs", "Return nothing", assistants.subgraphs, ("recurse",)),
        ("/subgraphs/{namespace}", "get_subgraph", "Return nothing", assistants.subgraphs, ("recurse",)),
    ):
        found.append(Operation("GET", "/assistants/{assistant_id}" + path, name, summary, handler, query=query))
    found.append(
        Operation(
            "POST",
            "/assistants/{assistant_id}/versions",
            "list_versions",
            "The version",
            assistants.versions,
            VersionsBody,
        )
    )
    return found


def _run_operations(prefix: str, of: str, runs: RunRoutes) -> Sequence[Operation]:
    one = prefix + "/{run_id}"
    return [
        Operation("POST", prefix, f"create_{of}run", "Create a run", runs.create, RunBody),
        Operation(
            "POST",
            prefix + "/stream",
            f"stream_{of}run",
            "Create a run and stream it",
            runs.stream,
            RunBody,
            streams=True,
            query=("namespace",),
        ),
        Operation("POST", prefix + "/wait", f"wait_{of}run", "Create a run and wait for it", runs.wait, RunBody),
        Operation("GET", one, f"get_{of}run", "Return a run", runs.get),
        Operation("DELETE", one, f"delete_{of}run", NOT_OFFERED, runs.delete),
        Operation("GET", one + "/join", f"join_{of}run", "Wait for a run", runs.join, query=(CANCEL_ON_DISCONNECT,)),
        Operation(
            "GET",
            one + "/stream",
            f"join_{of}run_stream",
            "Stream a run",
            runs.join_stream,
            streams=True,
            query=("stream_mode", "stream_subgraphs", CANCEL_ON_DISCONNECT, CHECKPOINT_ID, "namespace"),
        ),
        Operation(
            "POST", one + "/cancel", f"cancel_{of}run", "Ask a run to stop", runs.cancel, query=("wait", "action")
        ),
    ]


def _refused(method: str, path: str, handler: Handler) -> Operation:
    words = "".join(letter if letter.isalnum() else "_" for letter in path).strip("_")
    return Operation(method, path, f"{method.lower()}_{words}", NOT_OFFERED, handler)


def openapi(served: Sequence[Operation]) -> dict[str, Any]:
    """Returns the OpenAPI document of operations."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    paths: dict[str, dict[str, Any]] = {}
    for each in served:
        said: dict[str, Any] = {
            "operationId": each.name,
            "summary": each.summary,
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in _names_in(each.path)
            ]
            + [{"name": name, "in": "query", "required": False, "schema": {"type": "string"}} for name in each.query],
            "responses": {"default": _PROBLEM_ANSWER, **_answers(each)},
        }
        if each.body is not None:
            schema = each.body.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= schema.pop("$defs", {})
            schemas[each.body.__name__] = schema
            reference = {"$ref": f"#/components/schemas/{each.body.__name__}"}
            said["requestBody"] = {"content": {"application/json": {"schema": reference}}}
        if each.public:
            said["security"] = []
        paths.setdefault(each.path, {})[each.method.lower()] = said
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Signalbox",
            "version": version("signalbox"),
            "description": "The Agent Server's protocol, as far as the platform has what it is about.",
        },
        "security": [{"bearer": []}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "The same JWT."},
            },
        },
    }


_PROBLEM: Final = {
    "type": "object",
    "description": "A problem document (RFC 9457).",
    "required": ["type", "title", "status", "detail", "reason"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, and what to do."},
        "reason": {"type": "string", "description": "Stable, for programs."},
        "errors": {"type": "array", "items": {"type": "object"}},
        "metadata": {"type": "object"},
    },
}
_PROBLEM_ANSWER: Final = {
    "description": "A problem",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def _answers(operation: Operation) -> dict[str, Any]:
    if not operation.is_offered:
        return {"422": _PROBLEM_ANSWER}
    kind = "text/event-stream" if operation.streams else "application/json"
    return {"200": {"description": "What was asked for", "content": {kind: {}}}}


def _names_in(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


async def _ok(_request: Request) -> Response:
    return Json({"ok": True, "status": "ok"})


async def _info(_request: Request) -> Response:
    flags = {"assistants": True, "crons": False, "langsmith": False, "langsmith_tracing_replicas": False}
    return Json({"version": version("signalbox"), "flags": flags})
