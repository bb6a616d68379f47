"""Exit statuses of `signalbox`, part of its contract with scripts. The README and `--help` show this table."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from signalbox.v1 import runs_pb2

from services.cli import streams


class ExitCode(IntEnum):
    """What a status says."""

    OK = 0
    RUN_FAILED = 1
    USAGE = 2
    BLOCKED = 3
    NEEDS_REVIEW = 4
    UNREACHABLE = 5
    REFUSED = 6
    CANCELLED = 7
    AWAITING_INPUT = 8
    TIMED_OUT = 9
    FOUND = 10
    GUARD_UNAVAILABLE = 11
    INTERRUPTED = 130
    UNREAD = streams.UNREAD


MEANINGS: Final = {
    ExitCode.OK: "success; for `ask`, the question was answered",
    ExitCode.RUN_FAILED: "the run failed, or a local step did",
    ExitCode.USAGE: "the command or its input is wrong",
    ExitCode.BLOCKED: "the guard blocked the question",
    ExitCode.NEEDS_REVIEW: "the run ended without a full result; a person should look at it",
    ExitCode.UNREACHABLE: "the gateway can't be reached, has lost the platform, or did not answer in time",
    ExitCode.REFUSED: "the platform refused: token, rights, quota, or no such run",
    ExitCode.CANCELLED: "the run was cancelled",
    ExitCode.AWAITING_INPUT: "the run asks a question; `signalbox resume` answers it",
    ExitCode.TIMED_OUT: "the time given with --timeout is over; the run continues",
    ExitCode.FOUND: "a finding has a verdict that --fail-on names",
    ExitCode.GUARD_UNAVAILABLE: "the guard could not screen the question, so nothing was queried; ask again later",
    ExitCode.INTERRUPTED: "Ctrl-C; runs and batches continue",
    ExitCode.UNREAD: "the reader of the output closed it, as `head` does (SIGPIPE)",
}

_OF_STOP_REASON: Final = {"blocked": ExitCode.BLOCKED, "guard_unavailable": ExitCode.GUARD_UNAVAILABLE}
_OF_STATE: Final = {
    runs_pb2.RUN_STATE_SUCCEEDED: ExitCode.OK,
    runs_pb2.RUN_STATE_FAILED: ExitCode.RUN_FAILED,
    runs_pb2.RUN_STATE_CANCELLED: ExitCode.CANCELLED,
    runs_pb2.RUN_STATE_NEEDS_REVIEW: ExitCode.NEEDS_REVIEW,
    runs_pb2.RUN_STATE_AWAITING_INPUT: ExitCode.AWAITING_INPUT,
}


def exit_code_of(run: runs_pb2.Run) -> ExitCode:
    """The status that tells how a run ended; OK for one that is still under way."""
    return _OF_STOP_REASON.get(run.stop_reason) or _OF_STATE.get(run.state, ExitCode.OK)


def as_help() -> str:
    """The table as lines of `--help`."""
    return "\n".join(f"- {code.value}: {meaning}" for code, meaning in MEANINGS.items())
