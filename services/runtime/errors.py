"""Errors of the runtime.

SignalboxError
├── RunNotFound                 no such run, or another caller's
├── RunEnded                    the run has ended and can't be changed
├── RunNotEnded                 the run has not ended yet
├── RunNotRecorded              what the run's nodes heard was not to be kept
├── CheckpointNotFound          no such checkpoint, or retention has removed it
├── StateUnreadable             the state of a run can't be read by this replica
├── ConfigTooLate               a run gives what its graph's function has asked for, which made the graph at the start
├── ForkRefused                 a run can't go on from there, or not with its state changed so
├── AgentGone                   the agent of a run is not installed any more
├── ThreadNotFound              no such thread, or another caller's
├── ThreadExists                the id of a new thread is taken
├── ThreadsEmpty                the caller has too many threads without runs
├── ThreadBusy                  the thread has an active run
├── ThreadStateLost: ThreadStateGone, ThreadStateUnfit: what a thread's last run left can't be gone on from
├── RunQuotaExceeded: TooManyRunsAtOnce, TooManyRunsStarted, TooManyTokens, TooManyRunsWaiting
├── Overloaded                  more work waits than can wait without harm to what is under way
├── RequestIdReused             the request id was used for another run
├── RunKeyReused                what names a run was used for another input
├── QuestionNotFound            no such question, or one that others are asked
├── AnswerNotAllowed            the caller may see the question, and others are to answer it
├── StaleAnswer                 the run does not ask this question now
│   ├── QuestionAnswered        somebody has answered it
│   ├── QuestionExpired         nobody answered it in time
│   └── PlanMoved               it is about another plan than the answer
├── InvalidAnswer               the answer is none of the options
│   └── AnswerBlocked           the guard blocks it; the question stays open
├── AnswerUnscreened            the guard gives no verdict on the answer for now; the question stays open
├── Draining                    this replica takes no new runs
├── ClockOff                    this replica's clock is not the platform's
├── OperatorOnly                the caller is not an operator
├── BatchRunsOnly               a batch's token is for runs of that batch
├── RolesLost                   the caller lacks a role that the run was made with
├── ClaimLost                   another replica has claimed the run
├── DatabaseAway                the platform database can't be reached
├── DependencyAway              a service or model that a node needs is away; waiting can mend it
├── GuardFailed                 the guard gives no verdict: its model refuses, or says something else
├── ModelRefused                a model's endpoint says no: key, model, length, tools
├── ModelFailed                 a model did not answer in a way that can be used
├── ModelNotAllowed             a node that acts asked a model
├── QuestionNotAllowed          a node asked a person that does more than that
├── StoreRefused                a node, or a caller, asked of a store what that does not do or hold
├── StoreClosed                 callers may not read, or write, their stores outside of runs
├── ItemNotFound                the caller's store has no such item
├── ServiceFailed               evaluator or executor did not do what it was asked
├── NodeTimedOut                a node did not end within its limit
├── BudgetSpent                 what the run may spend does not allow what a node was about to do, or was doing
├── RouterFailed                a router raised
├── UndeclaredChange            a node or rule changed facts that it does not declare
├── StatusForgotten             a run came to its end, and no node had said how it ended
└── NotStorable                 what a node or a router made can't be stored
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


class RunNotRecorded(SignalboxError):
    """The run was created without recording, so its nodes' answers were not kept."""

    reason = "RUN_NOT_RECORDED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class CheckpointNotFound(SignalboxError):
    """No such checkpoint of the run, or retention has removed it."""

    reason = "CHECKPOINT_NOT_FOUND"
    code = grpc.StatusCode.NOT_FOUND


class StateUnreadable(SignalboxError):
    """The state of a run holds what this replica can't read, such as types of a graph that it does not have."""

    reason = "STATE_UNREADABLE"
    code = grpc.StatusCode.FAILED_PRECONDITION


class ConfigTooLate(SignalboxError):
    """A run gives its graph what the function that makes the graph has asked for: it was made once, at the start."""

    reason = "CONFIG_TOO_LATE"
    code = grpc.StatusCode.INVALID_ARGUMENT


class ForkRefused(SignalboxError):
    """A run can't go on from a step of this one, or not with its state changed in this way."""

    reason = "FORK_REFUSED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class AgentGone(SignalboxError):
    """The run's agent is no longer installed."""

    reason = "AGENT_GONE"
    code = grpc.StatusCode.FAILED_PRECONDITION


class AgentUnknown(SignalboxError):
    """The request is for an agent of a newer release than this replica's."""

    reason = "AGENT_UNKNOWN"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class ThreadNotFound(SignalboxError):
    """No such thread, or another caller's."""

    reason = "THREAD_NOT_FOUND"
    code = grpc.StatusCode.NOT_FOUND


class ThreadsEmpty(SignalboxError):
    """The caller has as many threads without runs as anybody may have."""

    reason = "THREADS_EMPTY"
    code = grpc.StatusCode.FAILED_PRECONDITION


class ThreadExists(SignalboxError):
    """The id of a new thread is taken."""

    reason = "THREAD_EXISTS"
    code = grpc.StatusCode.ALREADY_EXISTS


class ThreadBusy(SignalboxError):
    """The thread has an active run, and the request asked to be refused in that case."""

    reason = "THREAD_BUSY"
    code = grpc.StatusCode.FAILED_PRECONDITION


class ThreadStateLost(SignalboxError):
    """A run can't begin with the state that the run before it has left in their thread."""

    reason = "THREAD_STATE_LOST"
    code = grpc.StatusCode.FAILED_PRECONDITION


class ThreadStateGone(ThreadStateLost):
    """Retention has removed the state of a thread."""

    reason = "THREAD_STATE_GONE"


class ThreadStateUnfit(ThreadStateLost):
    """The state of a thread does not fit the graph as it is now."""

    reason = "THREAD_STATE_UNFIT"


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


class TooManyTokens(RunQuotaExceeded):
    """A caller's runs have spent their tokens of the day."""

    reason = "TOO_MANY_TOKENS"


class TooManyRunsWaiting(RunQuotaExceeded):
    """Too many of a caller's runs wait for people to answer."""

    reason = "TOO_MANY_RUNS_WAITING"


class Overloaded(SignalboxError):
    """So much work waits that more of it would harm what is under way."""

    reason = "OVERLOADED"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True


class RequestIdReused(SignalboxError):
    """The caller has used the request id for something else."""

    reason = "REQUEST_ID_REUSED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class RunKeyReused(SignalboxError):
    """The caller has a run by this name, an incident's id for example, with another input."""

    reason = "RUN_KEY_REUSED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class QuestionNotFound(SignalboxError):
    """No such question, or one that only others may see."""

    reason = "QUESTION_NOT_FOUND"
    code = grpc.StatusCode.NOT_FOUND


class AnswerNotAllowed(SignalboxError):
    """The caller may see the question, since the run is theirs, but others may answer it."""

    reason = "ANSWER_NOT_ALLOWED"
    code = grpc.StatusCode.PERMISSION_DENIED


class StaleAnswer(SignalboxError):
    """The run does not ask this question now."""

    reason = "STALE_ANSWER"
    code = grpc.StatusCode.FAILED_PRECONDITION


class QuestionAnswered(StaleAnswer):
    """Somebody has answered the question."""

    reason = "QUESTION_ANSWERED"


class QuestionExpired(StaleAnswer):
    """Nobody answered the question in time."""

    reason = "QUESTION_EXPIRED"


class PlanMoved(StaleAnswer):
    """The answer names another plan than the one the question is about."""

    reason = "PLAN_MOVED"


class InvalidAnswer(SignalboxError):
    """The answer is none of the options."""

    reason = "INVALID_ANSWER"
    code = grpc.StatusCode.INVALID_ARGUMENT


class AnswerBlocked(InvalidAnswer):
    """The guard blocks the answer. It was not accepted: answer the question in other words."""

    reason = "ANSWER_BLOCKED"


class AnswerUnscreened(SignalboxError):
    """The guard gives no verdict on the answer for now. It was not accepted: send it again later."""

    reason = "ANSWER_UNSCREENED"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class Draining(SignalboxError):
    """This replica shuts down and has closed its streams; another one continues."""

    reason = "DRAINING"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class ClockOff(SignalboxError):
    """This replica's clock is off, so it can't judge tokens; another one can."""

    reason = "CLOCK_OFF"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class OperatorOnly(SignalboxError):
    """The caller is not an operator."""

    reason = "OPERATOR_ONLY"
    code = grpc.StatusCode.PERMISSION_DENIED


class BatchRunsOnly(SignalboxError):
    """The token is a batch's, and the run is none of that batch."""

    reason = "BATCH_RUNS_ONLY"
    code = grpc.StatusCode.PERMISSION_DENIED


class RolesLost(SignalboxError):
    """The caller lacks a role that the run was created with, and may no longer see its results."""

    reason = "ROLES_LOST"
    code = grpc.StatusCode.PERMISSION_DENIED


class ClaimLost(SignalboxError):
    """Another replica has claimed the run, or it has ended: this replica may write nothing more for it."""

    reason = "CLAIM_LOST"
    code = grpc.StatusCode.ABORTED
    retryable = True


class DatabaseAway(SignalboxError):
    """The platform database can't be reached: nothing is wrong with the run, which continues later or elsewhere."""

    reason = "DATABASE_AWAY"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class DependencyAway(SignalboxError):
    """A service or model that a node needs is unavailable: nothing is wrong with the run, which waits for it."""

    reason = "DEPENDENCY_AWAY"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True

    def __init__(self, dependency: str, cause: str) -> None:
        super().__init__(
            f"the {dependency} is away ({cause}); try again later",
            metadata={"dependency": dependency, "cause": cause},
        )
        self.dependency = dependency
        self.cause = cause
        # Of an attempt inside a node's own graph: what its steps have saved, and what only this attempt knows of. The
        # calls are call records.
        self.saved_s = 0.0
        self.saved_calls: Sequence[Any] = ()
        self.unsaved_s: float | None = None
        # Nobody was asked this time, since it had been away before.
        self.held_back = False
        # Before that nobody may ask again: it costs.
        self.least_wait_s = 0.0


class StoreRefused(SignalboxError):
    """A node of a hosted graph, or a caller, asked of a store what that does not do, or more than it may hold."""

    reason = "STORE_REFUSED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class StoreClosed(SignalboxError):
    """The operator does not let callers read, or write, what hosted graphs keep for them."""

    reason = "STORE_CLOSED"
    code = grpc.StatusCode.PERMISSION_DENIED


class ItemNotFound(SignalboxError):
    """The caller's store has no such item, or not any more."""

    reason = "ITEM_NOT_FOUND"
    code = grpc.StatusCode.NOT_FOUND


class ModelRefused(SignalboxError):
    """A model's endpoint refuses the key, the model's name, the length or the tools. Waiting does not help."""

    reason = "MODEL_REFUSED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class GuardFailed(SignalboxError):
    """The guard gives no verdict: its model refuses, which ends the run, or says what is none, which is waited for."""

    reason = "GUARD_FAILED"
    code = grpc.StatusCode.FAILED_PRECONDITION

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(f"the guard could not screen the text ({cause}): {message}", metadata={"cause": cause})
        self.cause = cause
        self.least_wait_s = 0.0

    @property
    def is_refusal(self) -> bool:
        """Whether the endpoint of the guard's model said no, such as to its key, its name or a parameter."""
        return self.cause.startswith(("http_4", "error_4", "error_for_answer"))


class ModelFailed(SignalboxError):
    """A model answered, but not in a way that can be used."""

    reason = "MODEL_FAILED"
    code = grpc.StatusCode.INTERNAL


class ModelNotAllowed(SignalboxError):
    """A node that acts asked a model: an earlier node must plan what it does, and commit the plan."""

    reason = "MODEL_NOT_ALLOWED"
    code = grpc.StatusCode.INTERNAL


class QuestionNotAllowed(SignalboxError):
    """A node asked a person and does more than that, which it would do again with the answer."""

    reason = "QUESTION_NOT_ALLOWED"
    code = grpc.StatusCode.INTERNAL


class ServiceFailed(SignalboxError):
    """The evaluator or an executor is available and failed to do what it was asked.

    A call of a tool that writes may have taken effect all the same, or an attempt before it.
    """

    reason = "SERVICE_FAILED"
    code = grpc.StatusCode.INTERNAL


class NodeTimedOut(SignalboxError):
    """A node did not end within its limit."""

    reason = "NODE_TIMED_OUT"
    code = grpc.StatusCode.DEADLINE_EXCEEDED


class BudgetSpent(SignalboxError):
    """The run's budget is spent; the node ends there, and the run by its rule."""

    reason = "BUDGET_SPENT"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED

    def __init__(self, limit: str) -> None:
        super().__init__(f"the run's budget of {limit} is spent", metadata={"limit": limit})
        self.limit = limit


class RouterFailed(SignalboxError):
    """A router raised instead of deciding."""

    reason = "ROUTER_FAILED"


class UndeclaredChange(SignalboxError):
    """A node, or the update of a rule, changed facts that it does not declare."""

    reason = "UNDECLARED_CHANGE"
    code = grpc.StatusCode.INTERNAL


class StatusForgotten(SignalboxError):
    """A run ended without a node saying how it ended."""

    reason = "STATUS_FORGOTTEN"


class InvalidGraphError(ValueError):
    """A graph, or the state of one, that would fail when a run comes to it."""


class NotStorable(SignalboxError):
    """What a node or a router made can't be stored: a NUL, half of a surrogate pair, a number beyond 64 bits."""

    reason = "NOT_STORABLE"
