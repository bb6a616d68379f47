"""docs/metrics.md and docs/errors.md, made from the code by `python -m tests.contract.reference_pages`."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType

import grimp
import grpc
from prometheus_client.metrics import MetricWrapperBase

from services.kit.errors import SignalboxError
from tests.contract.deploy import services
from tests.contract.deploy.helm import ROOT

METRICS = ROOT / "docs" / "metrics.md"
ERRORS = ROOT / "docs" / "errors.md"
_METRICS_HEAD = """# Metrics

What each service tells at `/metrics` of its own, for Prometheus; with it comes what the Python client tells of every
process. A histogram `x` is the series `x_bucket`, `x_sum` and `x_count`. What operators watch is made of these: the
dashboards in `charts/dashboards`, the alerts in `charts/signalbox/alerts`.

Made from the code by `python -m tests.contract.reference_pages`; a test fails when it is stale.

| metric | type | labels | what it is | services |
|---|---|---|---|---|
"""
_ERRORS_HEAD = """# Errors

Every failed call has a gRPC code and a `google.rpc.ErrorInfo` of the domain `signalbox`: its reason is stable, for
programs; the message is for people. `retryable` in its metadata says whether the same call may succeed later; a
`google.rpc.RetryInfo`, after how long; a `google.rpc.BadRequest`, which fields are wrong. An error that nobody foresaw
is INTERNAL with reason `INTERNAL` and a trace id. What tools refuse a model with is in their answers, and not here.

Made from the code by `python -m tests.contract.reference_pages`; a test fails when it is stale.

## What to do, by code

| code | what to do |
|---|---|
"""
_REASONS_HEAD = """
## Reasons

| reason | code | again? | what it means | services |
|---|---|---|---|---|
"""
WHAT_TO_DO = {
    "INVALID_ARGUMENT": "Correct the request; the `BadRequest` names the fields. The same request fails again.",
    "NOT_FOUND": "Check the id, and whose it is: what a caller may not see is not found, nor what retention removed.",
    "ALREADY_EXISTS": "Use another name, or use the existing one.",
    "PERMISSION_DENIED": "Ask as somebody who may, or request the role; the message says what is missing.",
    "UNAUTHENTICATED": "Get a new token, and send it as `authorization: Bearer …`.",
    "FAILED_PRECONDITION": "Look at the state that the message names; the call fails until that state changes.",
    "ABORTED": "Read again what you wanted to change, then try again.",
    "RESOURCE_EXHAUSTED": "Wait as long as the `RetryInfo` says; for more, ask the operator for another quota.",
    "UNAVAILABLE": "Try again, with growing pauses; operators see what is unavailable on the overview.",
    "DEADLINE_EXCEEDED": "Try again with more time; a run continues without the call that started it.",
    "UNIMPLEMENTED": "Upgrade the platform, or do not use this.",
    "INTERNAL": "Give the trace id to the operator.",
    "OUT_OF_RANGE": "Ask for less.",
    "CANCELLED": "Try again if you did not cancel it yourself.",
    "DATA_LOSS": "Give the trace id to the operator.",
    "UNKNOWN": "Give the trace id to the operator.",
}


@cache
def _modules() -> dict[str, ModuleType]:
    """Returns every module of the services but those that are programs, by name."""
    names = grimp.build_graph("services").modules
    return {name: import_module(name) for name in sorted(names) if not name.endswith("__main__")}


@cache
def _users() -> dict[str, list[str]]:
    """Returns the services that each module is loaded in."""
    graph = grimp.build_graph("services")
    found: defaultdict[str, list[str]] = defaultdict(list)
    for service in sorted(services.in_source()):
        package = f"services.{service}"
        own = {package, *graph.find_descendants(package)}
        for module in own.union(*map(graph.find_upstream_modules, own)):
            found[module].append(service)
    return found


def _imported(module: ModuleType) -> set[str]:
    """Returns the names that a module has from others."""
    statements = ast.walk(ast.parse(inspect.getsource(module)))
    froms = [each for each in statements if isinstance(each, ast.ImportFrom)]
    return {alias.asname or alias.name for each in froms for alias in each.names}


def metrics() -> dict[str, tuple[MetricWrapperBase, list[str]]]:
    """Returns every metric by name, and the services that tell it."""
    found = {}
    for name, module in _modules().items():
        own = {key: value for key, value in vars(module).items() if isinstance(value, MetricWrapperBase)}
        for key in own.keys() - (_imported(module) if own else set()):
            metric = own[key]
            [told] = metric.describe()
            shown = f"{told.name}_total" if told.type == "counter" else told.name
            found[shown] = (metric, _users().get(name, []))
    return found


def errors() -> dict[str, tuple[type[SignalboxError], list[str]]]:
    """Returns every error that has a reason of its own by that, and the services that may answer with it."""
    _modules()
    found: dict[str, tuple[type[SignalboxError], list[str]]] = {}
    for leaf in sorted(_leaves(SignalboxError), key=lambda each: (each.__module__, each.__name__)):
        users = _users().get(leaf.__module__, [])
        if leaf.reason in found:
            users = sorted({*found[leaf.reason][1], *users})
        found[leaf.reason] = (leaf, users)
    return found


def _leaves(kind: type[SignalboxError]) -> Iterator[type[SignalboxError]]:
    for below in kind.__subclasses__():
        if "reason" in vars(below) and below.__module__.startswith("services."):
            yield below
        yield from _leaves(below)


def render_metrics() -> str:
    """Returns the page of metrics."""
    return _METRICS_HEAD + "".join(_metric_rows())


def _metric_rows() -> Iterator[str]:
    for name, (metric, users) in sorted(metrics().items()):
        [told] = metric.describe()
        labels = ", ".join(f"`{label}`" for label in metric._labelnames)
        yield f"| `{name}` | {told.type} | {labels} | {_cell(told.documentation)} | {', '.join(users)} |\n"


def render_errors() -> str:
    """Returns the page of errors."""
    found = errors()
    codes = {leaf.code for leaf, _ in found.values()} | {grpc.StatusCode.INTERNAL}
    by_code = "".join(f"| `{code.name}` | {WHAT_TO_DO[code.name]} |\n" for code in grpc.StatusCode if code in codes)
    return _ERRORS_HEAD + by_code + _REASONS_HEAD + "".join(_error_rows(found))


def _error_rows(found: dict[str, tuple[type[SignalboxError], list[str]]]) -> Iterator[str]:
    for reason, (leaf, users) in sorted(found.items()):
        meaning = _cell((inspect.getdoc(leaf) or "").partition("\n\n")[0])
        again = "yes" if leaf.retryable else "no"
        yield f"| `{reason}` | `{leaf.code.name}` | {again} | {meaning} | {', '.join(users)} |\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    METRICS.write_text(render_metrics())
    ERRORS.write_text(render_errors())
