"""From limits to the protos."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import struct_pb2
from signalbox.v1 import policy_pb2
from signalbox_routing.facts import Record

from services.runtime.agents.policies import BUDGET, CALLER, FILE, PROMPTS, Limits, Pin
from services.runtime.engine.records import RunRecord
from services.runtime.routing.state import Budget

_ORIGINS = {FILE: policy_pb2.LIMIT_ORIGIN_FILE, CALLER: policy_pb2.LIMIT_ORIGIN_CALLER}


def policy_proto(limits: Limits) -> policy_pb2.Policy:
    """Returns the limits that new runs of an agent get."""
    budget = {name.removeprefix(f"{BUDGET}."): origin for name, origin in limits.origins.items()}
    return policy_pb2.Policy(
        version=limits.pin.policy_version,
        limits=_limits(limits.pin.limits, limits.pin.origins),
        budget=_limits(limits.budget, budget),
        prompts=limits.prompts,
    )


def budget_of(policy: policy_pb2.Policy) -> tuple[Budget, dict[str, str]]:
    """Returns the budget of new runs of a listed agent, and where those parts come from that are not built in."""
    given = {limit.name: limit.value.number_value for limit in policy.budget}
    names = {number: origin for origin, number in _ORIGINS.items()}
    origins = {limit.name: names[limit.origin] for limit in policy.budget if limit.origin in names}
    budget = Budget(
        model_calls=int(given.get("model_calls", 0)),
        tool_calls=int(given.get("tool_calls", 0)),
        tokens=int(given.get("tokens", 0)),
        wall_time_s=given.get("wall_time_s", 0.0),
    )
    return budget, origins


def run_policy_proto(run: RunRecord, pin: Pin, known: type[Record] | None) -> policy_pb2.Policy:
    """Returns the policy that a run is pinned to, and what this release makes of it; `known` is its own, if any."""
    fields = dataclasses.fields(known) if known and dataclasses.is_dataclass(known) else ()
    added = {field.name: field.default for field in fields if field.name not in pin.limits}
    names = {field.name for field in fields}
    limits = [*_limits(pin.limits, pin.origins), *_limits(added, {})]
    for limit in limits:
        if limit.name in added:
            limit.origin = policy_pb2.LIMIT_ORIGIN_ADDED
        elif known and limit.name not in names:
            limit.origin = policy_pb2.LIMIT_ORIGIN_UNKNOWN
    return policy_pb2.Policy(
        version=pin.policy_version,
        limits=limits,
        budget=_limits(run.budget, run.budget_origins),
        prompts=pin.prompts,
    )


def _limits(values: Mapping[str, Any], origins: Mapping[str, str]) -> Iterator[policy_pb2.Limit]:
    for name, value in values.items():
        if name == PROMPTS:
            continue
        origin = _ORIGINS.get(origins.get(name, ""), policy_pb2.LIMIT_ORIGIN_DEFAULT)
        yield policy_pb2.Limit(name=name, value=limit_value(value), origin=origin)


def limit_value(limit: float | str) -> struct_pb2.Value:
    """Returns the value of a limit."""
    if isinstance(limit, str):
        return struct_pb2.Value(string_value=limit)
    if isinstance(limit, bool):
        return struct_pb2.Value(bool_value=limit)
    return struct_pb2.Value(number_value=limit)
