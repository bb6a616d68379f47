"""What comes from outside, what a person at a terminal gave, and what comes from places that were not shown."""

from __future__ import annotations

import ast
import itertools

from services.offline_model.code_review.opinion import Need
from services.offline_model.code_review.shown import Function, ShownFile, bare_name, dotted
from services.offline_model.code_review.values import NUMBER, OUTSIDE, UNKNOWN, Origin, Value, of

REQUEST_PARTS = frozenset(
    (
        "args", "form", "values", "json", "get_json", "get_data", "data", "cookies", "headers", "files", "query_params",
        "GET", "POST", "path_params", "query", "match_info", "body", "params", "query_string", "view_args", "rel_url",
        "post", "text", "url", "path",
    )
)  # fmt: skip
REQUEST_NAMES = frozenset({"request", "req", "websocket"})
_PLAIN_DECORATORS = frozenset({"staticmethod", "classmethod", "cache", "lru_cache", "wraps", "abstractmethod",
                               "override", "contextmanager", "asynccontextmanager", "overload", "final"})  # fmt: skip
_ROUTE_DECORATORS = frozenset({"route", "get", "post", "put", "delete", "patch", "websocket", "api_route", "view"})


def is_request(node: ast.expr, file: ShownFile, function: Function | None) -> bool:
    """Tells whether an expression is a part of the request that is being answered."""
    chain = dotted(node).split(".")
    if not any(name in REQUEST_NAMES and part in REQUEST_PARTS for name, part in itertools.pairwise(chain)):
        return False
    # A request that the program makes itself is an outgoing one.
    body = function.body if function is not None else file.statements
    return not _is_made(chain[0], body) and not file.imports.get(chain[0], "").startswith(
        ("urllib", "requests", "httpx")
    )


def is_typed(node: ast.expr) -> bool:
    """Tells whether a value is what a person at a terminal typed, or set for the program."""
    chain = dotted(node).split(".")
    return chain[:2] in (["sys", "argv"], ["os", "environ"], ["os", "getenv"]) or (
        chain == ["input"] and isinstance(node, ast.Call)
    )


def requested(node: ast.expr, file: ShownFile) -> Value:
    """A value that is a part of the request."""
    return of(Origin(OUTSIDE, f"`{ast.unparse(node)[:80]}` comes from a request", file.path, node.lineno))


def is_route(function: Function) -> bool:
    """Tells whether a function answers requests."""
    return any(bare_name(decorator) in _ROUTE_DECORATORS for decorator in function.decorator_list)


def is_called_as_written(function: Function) -> bool:
    """Tells whether a function gets what its callers pass: decorators that nobody knows may pass something else."""
    known = _ROUTE_DECORATORS | _PLAIN_DECORATORS
    return all(bare_name(decorator) in known for decorator in function.decorator_list)


def route_part(name: str, function: Function, file: ShownFile) -> Value:
    """Returns what a part of the request's path may hold: anything, or what its converter lets through."""
    routes = [one for one in function.decorator_list if bare_name(one) in _ROUTE_DECORATORS]
    texts = [str(part.value) for one in routes for part in ast.walk(one) if isinstance(part, ast.Constant)]
    about = [text for text in texts if f"{name}>" in text or f"{{{name}" in text]
    is_number = bool(about) and all(f"<int:{name}>" in text or f"<float:{name}>" in text for text in about)
    kind = NUMBER if is_number else OUTSIDE
    return of(Origin(kind, f"`{name}` is part of the request's path", file.path, function.lineno))


def unknown(node: ast.AST, file: ShownFile, what: str, need: Need | None = None) -> Value:
    """A value that comes from a place that was not shown."""
    return of(Origin(UNKNOWN, what, file.path, getattr(node, "lineno", 0), need))


def _is_made(name: str, body: list[ast.stmt]) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for statement in body
        for node in ast.walk(statement)
    )
