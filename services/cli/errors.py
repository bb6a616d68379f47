"""What the command tells its user when something goes wrong: what happened, and what to do next."""

from __future__ import annotations

import grpc

from services.cli.exit_codes import ExitCode
from services.kit.errors import ErrorDetail, error_detail


class CliError(Exception):
    """An error for the person at the terminal: message, what to do, and the exit status."""

    def __init__(self, message: str, *, hint: str = "", code: ExitCode) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


_START = "start one with `signalbox up`, or name a gateway: --gateway HOST:PORT"
# Which status and which advice a refusal gets, by its gRPC code.
_ADVICE = {
    grpc.StatusCode.INVALID_ARGUMENT: (ExitCode.USAGE, "correct the command and try again"),
    grpc.StatusCode.UNAUTHENTICATED: (
        ExitCode.REFUSED,
        "set SIGNALBOX_TOKEN to a valid token; with `signalbox up`, use --as instead",
    ),
    grpc.StatusCode.PERMISSION_DENIED: (ExitCode.REFUSED, "use a token with the rights for this"),
    grpc.StatusCode.NOT_FOUND: (ExitCode.REFUSED, "`signalbox runs` lists the runs you may see; --as says who you are"),
    grpc.StatusCode.FAILED_PRECONDITION: (ExitCode.REFUSED, "`signalbox show RUN` tells the state of a run"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (ExitCode.REFUSED, "wait a moment and try again"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (
        ExitCode.TIMED_OUT,
        "a run goes on without you: `signalbox runs` finds it; --timeout gives more time",
    ),
}


def not_running() -> CliError:
    """No gateway was named and none runs here."""
    return CliError("no platform is running here", hint=_START, code=ExitCode.UNREACHABLE)


def from_rpc(error: grpc.aio.AioRpcError, address: str) -> CliError:
    """Word a failed call."""
    detail = error_detail(error)
    if detail.code is grpc.StatusCode.UNAVAILABLE:
        return _unavailable(detail, address)
    code, hint = _ADVICE.get(
        detail.code, (ExitCode.REFUSED, "the gateway's log tells more; look for the trace id, if there is one")
    )
    message = detail.message or detail.code.name
    for violation in detail.violations:
        message += f"\n  {violation.field}: {violation.description}"
    if detail.retry_after_s is not None:
        hint = f"try again in {max(1, round(detail.retry_after_s))} s"
    if "active_run_id" in detail.metadata:
        hint = f"`signalbox show {detail.metadata['active_run_id']}` shows the run that is in the way"
    return CliError(f"{message} ({detail.reason})", hint=hint, code=code)


def _unavailable(detail: ErrorDetail, address: str) -> CliError:
    if "run_id" in detail.metadata:
        hint = f"the run goes on: `signalbox show {detail.metadata['run_id']}`"
        return CliError(detail.message, hint=hint, code=ExitCode.UNREACHABLE)
    if detail.reason == detail.code.name:  # nobody answered: gRPC itself says so
        return CliError(f"no gateway answers at {address}", hint=_START, code=ExitCode.UNREACHABLE)
    return CliError(f"{detail.message} ({detail.reason})", hint="try again in a moment", code=ExitCode.UNREACHABLE)
