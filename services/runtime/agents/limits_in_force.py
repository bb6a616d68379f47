"""What an agent's new runs are decided by: limits with their values, where these come from, and who reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from signalbox_routing.facts import as_dict

from services.runtime.agents.offered import Offered
from services.runtime.agents.policies import BUDGET, FILE
from services.runtime.hosted.definition import HostedDefinition
from services.runtime.routing.digest import digest


class LimitSource(StrEnum):
    """Where the value of a limit comes from."""

    RELEASE = "release"
    FILE = "file"
    SETTING = "setting"
    # Of a table that the graph's code has, and of one that was lifted from it.
    TABLE = "table"
    CODE = "code"


@dataclass(frozen=True)
class LimitInForce:
    """A limit: its value, where that comes from, and the routers that read it."""

    value: Any
    source: LimitSource
    routers: tuple[str, ...] = ()


@dataclass(frozen=True)
class LimitsInForce:
    """All limits of an agent, those of the budget as `budget.tokens`."""

    agent: str
    limits: Mapping[str, LimitInForce]
    policy_version: str
    graph_version: str

    @property
    def values(self) -> dict[str, Any]:
        """The values by name, whole numbers as such."""
        return {name: _plain(limit.value) for name, limit in self.limits.items()}

    @cached_property
    def digest(self) -> str:
        """Tells them from all with other values."""
        return digest(self.values)


def limits_of(agent: Offered, given: LimitSource) -> LimitsInForce:
    """Returns the limits of an agent; `given` says where those come from that an operator has set."""
    readers = defaultdict[str, list[str]](list)
    for router in agent.in_force.routers:
        for name in {term.name for term in router.terms if term.record is not router.facts_type}:
            readers[name].append(router.name)
    values, sources = dict(as_dict(agent.limits.policy)), dict[str, LimitSource]()
    if isinstance(agent.definition, HostedDefinition):
        lifted = agent.definition.lifted
        for table in lifted.given.values():
            sources |= dict.fromkeys(as_dict(table.policy), LimitSource.TABLE)
        in_code = as_dict(lifted.limits) if lifted.limits is not None else {}
        values |= in_code
        sources |= dict.fromkeys(in_code, LimitSource.CODE)
    values |= {f"{BUDGET}.{name}": value for name, value in agent.limits.budget.items()}
    sources |= {name: given for name, origin in agent.limits.origins.items() if origin == FILE}
    limits = {
        name: LimitInForce(value, sources.get(name, LimitSource.RELEASE), tuple(sorted(readers[name])))
        for name, value in sorted(values.items())
    }
    return LimitsInForce(agent.definition.name, limits, agent.limits.pin.policy_version, agent.outline.version)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
