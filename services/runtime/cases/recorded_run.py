"""The run of a case, as what executes a graph needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from google.protobuf import json_format, struct_pb2
from signalbox.v1 import cases_pb2, runs_pb2
from signalbox_routing.facts import Record

from services.kit.errors import InvalidRequest
from services.kit.identity.caller import Caller
from services.runtime.agents.policies import UnknownLimitTypeError, restored
from services.runtime.cases.errors import CaseUnfit
from services.runtime.routing.redeciding import with_limits
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.state import Budget

PolicyT = TypeVar("PolicyT", bound=Record)
# Whole numbers from here on are in no policy.
_TOO_LARGE = 2**63


def budget_of(run: runs_pb2.Run) -> Budget:
    """Returns a run's budget."""
    return Budget(
        model_calls=run.budget.model_calls,
        tool_calls=run.budget.tool_calls,
        tokens=run.budget.tokens,
        wall_time_s=float(run.budget.wall_time_s),
    )


def caller_of(run: runs_pb2.Run) -> Caller:
    """Returns a run's caller."""
    return Caller(run.caller.subject, frozenset(run.caller.roles))


def context_of(run: runs_pb2.Run) -> RunContext:
    """Returns what nodes know of a run; it has no tokens."""
    return RunContext(run.run_id, run.correlation_id, caller_of(run), 1, _no_token, [], _no_token, [])


def policy_of(case: cases_pb2.Case, kind: type[PolicyT], changed: Mapping[str, str]) -> PolicyT:
    """Returns the policy that a case's run was pinned to, with some limits changed. Raises CaseUnfit."""
    try:
        recorded = {limit.name: _plain(limit.value) for limit in case.run.policy.limits}
        return cast(PolicyT, with_limits(restored(kind, recorded), changed))
    except (UnknownLimitTypeError, ValueError) as error:
        raise CaseUnfit(f"the case's policy can't be used: {error}") from error
    except InvalidRequest as error:
        wrong = "; ".join(f"{each.field}: {each.description}" for each in error.violations)
        raise CaseUnfit(f"{error.message}: {wrong}") from error


def _no_token(_audience: str) -> str:
    return ""


def _plain(value: struct_pb2.Value) -> Any:
    plain = json_format.MessageToDict(value)
    return int(plain) if isinstance(plain, float) and plain.is_integer() and abs(plain) < _TOO_LARGE else plain
