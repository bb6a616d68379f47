"""What the command tells its user when something goes wrong: what happened, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterable

import grpc

from services.cli.exit_codes import ExitCode
from services.findings.errors import FindingsError
from services.kit.errors import ErrorDetail, FieldViolation, error_detail


class CliError(Exception):
    """An error for the person at the terminal: message, what to do, and the exit status."""

    def __init__(self, message: str, *, hint: str = "", code: ExitCode) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


_START = "start one with `signalbox up`, or name a gateway: `signalbox --gateway HOST:PORT …`, or SIGNALBOX_GATEWAY"
# Between the names of a path, not in a key such as `labels['team.name']`.
_DOT = re.compile(r"\.(?![^\[]*\])")
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
}


def not_running() -> CliError:
    """No gateway was named and none runs here."""
    return CliError("no platform is running here", hint=_START, code=ExitCode.UNREACHABLE)


def from_findings(error: FindingsError) -> CliError:
    """Gives what went wrong with findings its exit status: it is wrong input."""
    return CliError(error.message, hint=error.hint, code=ExitCode.USAGE)


def from_rpc(error: grpc.aio.AioRpcError, address: str, *, given_s: float | None = None) -> CliError:
    """Word a failed call; `given_s` is how long the command waits for its answer."""
    return _worded(error_detail(error), address, given_s)


def from_stream(error: grpc.aio.AioRpcError, address: str, *, run_id: str, timeout_s: float | None) -> CliError:
    """Word why a run is followed no further; `timeout_s` is what the user gave, `run_id` empty without a run."""
    detail = error_detail(error)
    run_id = run_id or detail.metadata.get("run_id", "")
    if detail.code is grpc.StatusCode.DEADLINE_EXCEEDED and timeout_s is not None:
        return _too_late(detail, run_id)
    if detail.code is grpc.StatusCode.UNAVAILABLE and "run_id" in detail.metadata:
        hint = f"the run continues: `signalbox show {run_id}`"
        return CliError(detail.message, hint=hint, code=ExitCode.UNREACHABLE)
    return _worded(detail, address)


def _worded(detail: ErrorDetail, address: str, given_s: float | None = None) -> CliError:
    if detail.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        within = "in time" if given_s is None else f"within {given_s:g} s"
        message = f"the platform did not answer {within}{_said(detail)}"
        return CliError(message, hint="try again in a moment", code=ExitCode.UNREACHABLE)
    if detail.code is grpc.StatusCode.UNAVAILABLE:
        return _unavailable(detail, address)
    code, hint = _ADVICE.get(
        detail.code, (ExitCode.REFUSED, "look in the gateway's log, for the trace id if there is one")
    )
    message = detail.message or detail.code.name
    fields = dict.fromkeys(each.field for each in detail.violations)
    if fields and message.endswith(f": {', '.join(fields)}"):
        # It only lists paths in a request, which tell nothing to who typed a command.
        message = _in_words(detail.violations)
    else:
        message += "".join(f"\n  {each.field}: {each.description}" for each in detail.violations)
    if detail.retry_after_s is not None:
        hint = f"try again in {max(1, round(detail.retry_after_s))} s"
    if "active_run_id" in detail.metadata:
        hint = f"`signalbox show {detail.metadata['active_run_id']}` shows the run that occupies the thread"
    return CliError(f"{message} ({detail.reason})", hint=hint, code=code)


def _in_words(violations: Iterable[FieldViolation]) -> str:
    """What is wrong with fields, each by the last name of its path; a rule of the whole request has no field."""
    # Of several rules of a field the last says most.
    wrong = {each.field or each.description: each for each in violations}
    return "; ".join(
        f"{_DOT.split(each.field)[-1].replace('_', ' ')} {each.description}".lstrip() for each in wrong.values()
    )


def _said(detail: ErrorDetail) -> str:
    # gRPC's own words are for programs; a service's say more than we know.
    return "" if detail.reason == detail.code.name else f": {detail.message} ({detail.reason})"


def _too_late(detail: ErrorDetail, run_id: str) -> CliError:
    if run_id:
        message = f"the time for run {run_id} is over{_said(detail)}"
        hint = (
            f"the run continues without you: `signalbox show {run_id}` shows it, `signalbox cancel {run_id}` stops it"
        )
    else:
        message = f"the gateway did not answer in time{_said(detail)}"
        hint = "if it created a run, that continues without you: `signalbox runs` finds it"
    return CliError(message, hint=hint, code=ExitCode.TIMED_OUT)


def _unavailable(detail: ErrorDetail, address: str) -> CliError:
    if detail.reason == detail.code.name:  # nobody answered: gRPC itself says so
        return CliError(f"no gateway answers at {address}", hint=_START, code=ExitCode.UNREACHABLE)
    return CliError(f"{detail.message} ({detail.reason})", hint="try again in a moment", code=ExitCode.UNREACHABLE)
