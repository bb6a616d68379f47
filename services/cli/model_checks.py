"""Which checks each model of an endpoint is put to, by its roles, and what came of them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from rich.text import Text

from services.cli.guard_probe import screens
from services.cli.listing import Listing
from services.cli.model_probe import Failed, ModelProbe
from services.cli.progress import Progress
from services.kit.models.completions import Completions, Endpoint
from services.kit.models.roles import CALL_TOOLS, RETURN_STRUCTURED, ROLES
from services.local.processes import ProcessError
from services.local.topology import ModelEndpoint

ServiceEnv = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Check:
    """One thing that was tried: of which model and for which roles, whether it went well, and what was seen."""

    name: str
    model: str
    roles: str
    ok: bool
    said: str
    elapsed_s: float = 0.0


def roles_of(endpoint: ModelEndpoint) -> dict[str, list[str]]:
    """The models of an endpoint, and the roles that each has on the platform."""
    named = {"guard": endpoint.guard_model, "evaluator": endpoint.evaluator_model}
    named |= {role: endpoint.model_of(role) for role in ROLES}
    models: dict[str, list[str]] = {}
    for role, model in named.items():
        models.setdefault(model or endpoint.agent_model, []).append(role)
    return models


async def run_checks(
    endpoint: ModelEndpoint, service_env: ServiceEnv, progress: Progress, *, timeout_s: float
) -> AsyncIterator[Check]:
    """Yields what came of each check; a model that does not answer at all is not asked for more."""
    completions = Completions(Endpoint(endpoint.base_url, endpoint.api_key, timeout_s, retries=0))
    try:
        for model, roles in roles_of(endpoint).items():
            probe = ModelProbe(completions, endpoint, model)
            for name, attempt in _attempts(probe, endpoint, service_env, roles):
                progress.say(f"{model}: {name}")
                check = await _tried(name, model, roles, attempt)
                yield check
                if name == "answers" and not check.ok:
                    break
    finally:
        await completions.close()


def as_listing(checks: list[Check]) -> Listing:
    """Checks for a terminal."""
    shown = Listing("", "check", "model", "roles", "time", "seen", right=("time",))
    for check in checks:
        mark = Text("✓", style="green") if check.ok else Text("✗", style="red")
        shown.add(mark, check.name, check.model, check.roles, f"{check.elapsed_s:.1f} s", check.said)
    return shown


def _attempts(
    probe: ModelProbe, endpoint: ModelEndpoint, service_env: ServiceEnv, roles: list[str]
) -> list[tuple[str, Callable[[], Awaitable[str]]]]:
    attempts: list[tuple[str, Callable[[], Awaitable[str]]]] = [("answers", probe.answers)]
    if CALL_TOOLS.intersection(roles):
        attempts += [("tools", probe.uses_tools), ("context", probe.holds_context)]
    if RETURN_STRUCTURED.intersection(roles):
        attempts.append(("structured output", probe.returns_structured))
    if "evaluator" in roles:
        attempts.append(("JSON", probe.judges))
    if "guard" in roles:
        attempts.append(("guard verdict", lambda: screens(endpoint, service_env)))
    return attempts


async def _tried(name: str, model: str, roles: list[str], attempt: Callable[[], Awaitable[str]]) -> Check:
    start = time.perf_counter()
    check = Check(name, model, ", ".join(roles), ok=True, said="")
    try:
        said, ok = await attempt(), True
    except (Failed, ProcessError) as error:
        said, ok = str(error), False
    return replace(check, ok=ok, said=said, elapsed_s=time.perf_counter() - start)
