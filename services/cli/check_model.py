"""`signalbox check-model`: whether a model endpoint is fit for the platform, before a first question is asked of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace

from rich.text import Text

from services.cli.configured import model_endpoint
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.guard_probe import screens
from services.cli.listing import Listing
from services.cli.model_checks import Check, Failed, ModelProbe, roles_of
from services.cli.progress import Progress, progress_on
from services.cli.service_settings import check_service_settings, parse_service_settings
from services.cli.settings import CliSettings
from services.cli.terminal import Terminal
from services.kit.models.completions import Completions, Endpoint
from services.local.processes import ProcessError
from services.local.topology import ModelEndpoint

TOOL_ROLES = frozenset(("agent", "triage", "research"))
SUBMITTING_ROLES = frozenset(("triage", "analysis"))
ServiceEnv = Mapping[str, Mapping[str, str]]


async def check_model(
    settings: CliSettings, terminal: Terminal, *, timeout_s: float, service_settings: Sequence[str], as_json: bool
) -> ExitCode:
    """Tries every model that the settings name in each of its roles, and shows what was seen. Raises CliError."""
    endpoint = model_endpoint(settings)
    if endpoint is None:
        raise CliError(
            "no model endpoint is set, so that there is none to check: the offline model is used",
            hint="set OPENAI_BASE_URL, OPENAI_API_KEY and SIGNALBOX_AGENT_MODEL",
            code=ExitCode.USAGE,
        )
    service_env = parse_service_settings(service_settings)
    await check_service_settings(service_env)
    with progress_on(terminal.err, silent=as_json) as progress:
        checks = [check async for check in run_checks(endpoint, service_env, progress, timeout_s=timeout_s)]
    if as_json:
        terminal.json_value([asdict(check) for check in checks])
    else:
        terminal.out.print(as_listing(checks))
    return ExitCode.OK if all(check.ok for check in checks) else ExitCode.RUN_FAILED


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
    if TOOL_ROLES.intersection(roles):
        attempts.append(("tools", probe.uses_tools))
    if SUBMITTING_ROLES.intersection(roles):
        attempts.append(("structured output", probe.hands_in))
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
