"""Errors of the runtime.

SignalboxError
├── RunNotFound                 no such run, or another caller's
├── RunEnded                    the run has ended and can't be changed
├── RunNotEnded                 the run has not ended yet
├── CheckpointNotFound          no such checkpoint, or retention has removed it
├── AgentGone                   the agent of a run is not installed any more
├── ThreadNotFound              no such thread, or another caller's
├── ThreadExists                the id of a new thread is taken
├── ThreadBusy                  the thread has an active run
├── RunQuotaExceeded: TooManyRunsAtOnce, TooManyRunsStarted
├── RequestIdReused             the request id was used for another run
├── StaleAnswer                 the answer is not for the question that the run asks now
├── InvalidAnswer               the answer is none of the options
├── Draining                    this replica takes no new runs
├── ClockOff                    this replica's clock is not the platform's
├── OperatorOnly                the caller is no operator
├── ClaimLost                   another replica has claimed the run
├── DatabaseAway                the platform database can't be reached
├── ModelFailed                 a model did not answer in a way that can be used
└── ServiceFailed               guard, evaluator or executor did not answer
"""

from __future__ import annotations

import grpc

from services.kit.errors import SignalboxError


class RunNotFound(SignalboxError):
    """No such run, or another caller's."""

    reason = "RUN_NOT_FOUND"
    code = grpc.StatusCode.NOT_FOUND


class RunEnded(SignalboxError):
    """The run has ended and can't be changed."""

    reason = "RUN_ENDED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class RunNotEnded(SignalboxError):
    """The run has not ended yet."""

    reason = "RUN_NOT_ENDED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class CheckpointNotFound(SignalboxError):
    """No such checkpoint of the run, or retention has removed it."""

    reason = "CHECKPOINT_NOT_FOUND"
    code = grpc.StatusCode.NOT_FOUND


class AgentGone(SignalboxError):
    """The agent of a run is not installed any more."""

    reason = "AGENT_GONE"
    code = grpc.StatusCode.FAILED_PRECONDITION


class ThreadNotFound(SignalboxError):
    """No such thread, or another caller's."""

    reason = "THREAD_NOT_FOUND"
    code = grpc.StatusCode.NOT_FOUND


class ThreadExists(SignalboxError):
    """The id of a new thread is taken."""

    reason = "THREAD_EXISTS"
    code = grpc.StatusCode.ALREADY_EXISTS


class ThreadBusy(SignalboxError):
    """The thread has an active run, and the request said to refuse."""

    reason = "THREAD_BUSY"
    code = grpc.StatusCode.FAILED_PRECONDITION


class RunQuotaExceeded(SignalboxError):
    """A caller asked for more runs than its share."""

    reason = "RUN_QUOTA_EXCEEDED"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True


class TooManyRunsAtOnce(RunQuotaExceeded):
    """A caller has too many runs under way."""

    reason = "TOO_MANY_RUNS_AT_ONCE"


class TooManyRunsStarted(RunQuotaExceeded):
    """A caller has started too many runs within a minute."""

    reason = "TOO_MANY_RUNS_STARTED"


class RequestIdReused(SignalboxError):
    """The caller has used the request id for something else."""

    reason = "REQUEST_ID_REUSED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class StaleAnswer(SignalboxError):
    """The answer is not for the question that the run asks now."""

    reason = "STALE_ANSWER"
    code = grpc.StatusCode.FAILED_PRECONDITION


class InvalidAnswer(SignalboxError):
    """The answer is none of the options."""

    reason = "INVALID_ANSWER"
    code = grpc.StatusCode.INVALID_ARGUMENT


class Draining(SignalboxError):
    """This replica takes no new runs and has let go of its streams; another one goes on."""

    reason = "DRAINING"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class ClockOff(SignalboxError):
    """This replica's clock is off, so that it can judge no token; another one can."""

    reason = "CLOCK_OFF"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class OperatorOnly(SignalboxError):
    """The caller is no operator."""

    reason = "OPERATOR_ONLY"
    code = grpc.StatusCode.PERMISSION_DENIED


class ClaimLost(SignalboxError):
    """Another replica has claimed the run, or it has ended: nothing more may be written for it from here."""

    reason = "CLAIM_LOST"
    code = grpc.StatusCode.ABORTED
    retryable = True


class DatabaseAway(SignalboxError):
    """The platform database can't be reached: nothing is wrong with the run, another replica or moment goes on."""

    reason = "DATABASE_AWAY"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class ModelFailed(SignalboxError):
    """A model did not answer, or not in a way that can be used."""

    reason = "MODEL_FAILED"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class ServiceFailed(SignalboxError):
    """The guard, the evaluator or an executor did not answer."""

    reason = "SERVICE_FAILED"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True
