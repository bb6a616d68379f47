"""Limits of agents: what is built in, what an operator's file sets, and what a run is pinned to.

A file is YAML: limits by agent, and below `budget` what a run of it may spend.

    data_chat:
      max_iterations: 5
      budget: {model_calls: 20}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import yaml
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from signalbox_routing.facts import Record, as_dict

from services.kit.text.problems import problems_of
from services.kit.text.yaml_text import parse_yaml
from services.runtime.routing.digest import digest, policy_version
from services.runtime.routing.state import Budget

DEFAULT = "default"
FILE = "file"
CALLER = "caller"
BUDGET = "budget"
# Beside the limits: the digest of the prompts, which no file of limits sets.
PROMPTS = "prompts"
# What a run may spend at the most; 0 means no limit.
BUDGET_BOUNDS: Mapping[str, Any] = {
    "model_calls": Annotated[int, Field(ge=0, le=1_000_000)],
    "tool_calls": Annotated[int, Field(ge=0, le=1_000_000)],
    "tokens": Annotated[int, Field(ge=0, le=10_000_000_000)],
    "wall_time_s": Annotated[float, Field(ge=0, le=31_536_000)],
}
_STRICT = ConfigDict(strict=True)


class InvalidPoliciesError(ValueError):
    """A policy file that can't be used; `problems` has a line for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class UnknownLimitTypeError(ValueError):
    """A run is pinned to a limit of a type that this release can't use."""


@dataclass(frozen=True)
class Limits:
    """An agent's limits: policy and budget, and where those come from that are not built in.

    `origins` is by the name of the limit, those of the budget as `budget.tokens`. `prompts` is the digest of
    the prompts in force with them, empty for who has none; `prompts_given` tells whether some are an operator's.
    """

    policy: Record
    budget: Budget
    origins: Mapping[str, str] = field(default_factory=dict)
    prompts: str = ""
    prompts_given: bool = False

    @cached_property
    def pin(self) -> Pin:
        """The policy as runs are pinned to it."""
        own = {name: origin for name, origin in self.origins.items() if not name.startswith(f"{BUDGET}.")}
        # What is not built in hides a run from releases that know of no policies: they would decide it as if it were.
        own |= {PROMPTS: FILE} if self.prompts_given else {}
        limits = {**as_dict(self.policy), **({PROMPTS: self.prompts} if self.prompts else {})}
        return Pin(type(self.policy).__name__, policy_version(self.policy), limits, own)


@dataclass(frozen=True)
class Pin:
    """A policy as it is stored: its limits and the digest of its prompts by name, and the origin of those given."""

    kind: str
    policy_version: str
    limits: Mapping[str, Any]
    origins: Mapping[str, str]

    @cached_property
    def policy_id(self) -> str:
        """Tells it from every other: the same limits from other places are another."""
        return digest([self.kind, self.limits, self.origins])

    @property
    def prompts(self) -> str:
        """The digest of the prompts that were in force when a run was pinned; empty where that was not written down."""
        return str(self.limits.get(PROMPTS, ""))


def built_in(policy: type[Record], budget: Budget) -> Limits:
    """Returns the limits that an agent has when nobody sets any."""
    return Limits(policy(), budget)


def bounds_of(policy: type[Record]) -> dict[str, Any]:
    """Returns the type of each limit of a policy, with its bounds."""
    return get_type_hints(policy, include_extras=True)


def restored(policy: type[Record], limits: Mapping[str, Any]) -> Record:
    """Returns the policy that a run is pinned to, as this release knows it.

    Limits that the run was pinned without, by another release, are as this one has them built in; those that this one
    does not know are left out. Raises UnknownLimitTypeError. Bounds are for what is set now, and do not hold here.
    """
    hints, given = get_type_hints(policy), {}
    for name, value in limits.items():
        if name not in hints:
            continue
        try:
            given[name] = TypeAdapter(hints[name], config=_STRICT).validate_python(value)
        except ValidationError as error:
            raise UnknownLimitTypeError(f"{policy.__name__}.{name} is pinned to {value!r}: {_said(error)}") from error
    return policy(**given)


def load_policies(path: Path, built_ins: Mapping[str, Limits]) -> dict[str, Limits]:
    """Returns the limits of every agent, as the file sets them. Raises InvalidPoliciesError, OSError."""
    try:
        document = parse_yaml(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidPoliciesError([f"this is not YAML: {error}"]) from error
    return set_limits({} if document is None else document, built_ins)


def set_limits(document: Any, built_ins: Mapping[str, Limits]) -> dict[str, Limits]:
    """Returns the limits of every agent, as a document sets them. Raises InvalidPoliciesError with every problem."""
    if not isinstance(document, dict):
        raise InvalidPoliciesError(["limits are given by agent, such as `data_chat: {max_iterations: 5}`"])
    problems, limits = [], dict(built_ins)
    for agent, given in document.items():
        if agent not in built_ins:
            problems.append(f"{agent}: there is no such agent; there are {', '.join(sorted(built_ins))}")
        elif not isinstance(given, dict):
            problems.append(f"{agent}: limits are given by name, such as `{agent}: {{node_timeout_s: 300}}`")
        else:
            found: list[str] = []
            limits[agent] = _with(built_ins[agent], given, found)
            problems += [f"{agent}.{problem}" for problem in found]
    if problems:
        raise InvalidPoliciesError(problems)
    return limits


def _with(limits: Limits, given: Mapping[Any, Any], problems: list[str]) -> Limits:
    given_budget = given.get(BUDGET, {})
    if not isinstance(given_budget, dict):
        problems.append(f"{BUDGET}: what a run may spend is given by name, such as `budget: {{model_calls: 20}}`")
        given_budget = {}
    own = {name: value for name, value in given.items() if name != BUDGET}
    policy = dict(_checked(own, bounds_of(type(limits.policy)), "", problems))
    budget = dict(_checked(given_budget, BUDGET_BOUNDS, f"{BUDGET}.", problems))
    changed: Record = dataclasses.replace(limits.policy, **policy)
    origins = dict.fromkeys([*policy, *(f"{BUDGET}.{name}" for name in budget)], FILE)
    return Limits(changed, Budget(**{**limits.budget, **budget}), origins, limits.prompts, limits.prompts_given)  # type: ignore[typeddict-item]


def _checked(
    given: Mapping[Any, Any], bounds: Mapping[str, Any], prefix: str, problems: list[str]
) -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        if name not in bounds:
            problems.append(f"{prefix}{name}: there is no such limit; there are {', '.join(sorted(bounds))}")
            continue
        try:
            yield name, TypeAdapter(bounds[name], config=_STRICT).validate_python(value)
        except ValidationError as error:
            problems.append(f"{prefix}{name} is {value!r}: {_said(error)}")


def _said(error: ValidationError) -> str:
    message = problems_of(error)[0].what
    return message[0].lower() + message[1:]
