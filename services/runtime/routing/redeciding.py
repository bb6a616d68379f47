"""Replay: stored decisions decided once more under other limits. Predicates are pure, so no node and no model runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_type_hints

import orjson
from pydantic import TypeAdapter, ValidationError
from signalbox_routing.facts import Record
from signalbox_routing.table import Router

from services.kit.errors import FieldViolation, InvalidRequest
from services.kit.text.problems import problems_of
from services.runtime.routing.digest import policy_version
from services.runtime.routing.graph import BEFORE_TABLES


@dataclass(frozen=True)
class StoredDecision:
    """A decision as the ledger has it; `facts` are JSON values."""

    run_id: str
    sequence: int
    rule: str
    destination: str
    facts: Mapping[str, Any]
    decided_at: datetime


@dataclass(frozen=True)
class Divergence:
    """The first decision of a run that would have led elsewhere."""

    run_id: str
    sequence: int
    rule: str
    destination: str
    decided_at: datetime
    other_rule: str
    other_destination: str


def with_limits(policy: Record, limits: Mapping[str, str]) -> Record:
    """Returns the policy with some limits set from text. Raises InvalidRequest that names what is wrong."""
    hints = get_type_hints(type(policy), include_extras=True)
    known = {field.name for field in dataclasses.fields(policy)}
    changes, violations = {}, []
    for name, text in limits.items():
        if name not in known:
            violations.append(FieldViolation(f"limits[{name!r}]", f"one of: {', '.join(sorted(known))}"))
            continue
        try:
            changes[name] = TypeAdapter(hints[name]).validate_python(text)
        except ValidationError as error:
            violations.append(FieldViolation(f"limits[{name!r}]", problems_of(error)[0].what))
            continue
        if not _can_be_recorded(changes[name]):
            violations.append(FieldViolation(f"limits[{name!r}]", "a finite number of at most 64 bits, or a text"))
    if violations:
        raise InvalidRequest(f"these are no limits of {type(policy).__name__}", violations=violations)
    replaced: Record = dataclasses.replace(policy, **changes)
    return replaced


def _can_be_recorded(value: object) -> bool:
    """Says whether a limit survives as JSON, which a policy's version is a digest of."""
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except TypeError:
        return False


class Replay:
    """Decides stored decisions under another policy; they come run by run and in order."""

    def __init__(self, router: Router[Any, Any], policy: Record) -> None:
        self.policy_version = policy_version(policy)
        self.run_count = 0
        self.decision_count = 0
        self.skipped_count = 0
        self._router = router
        self._policy = policy
        self._facts = TypeAdapter[Any](router.facts_type)
        self._run_id = ""
        self._diverged = False

    def decide(self, decision: StoredDecision) -> Divergence | None:
        """Returns where the run would have left its way, if it is here.

        What a run did after that is not looked at: it would not have happened. Decisions whose facts are blanked or of
        another shape are skipped.
        """
        if decision.run_id != self._run_id:
            self._run_id, self._diverged = decision.run_id, False
            self.run_count += 1
        self.decision_count += 1
        if self._diverged or decision.rule in BEFORE_TABLES:
            return None
        try:
            facts = self._facts.validate_python(decision.facts)
        except ValidationError:
            self.skipped_count += 1
            return None
        rule, destination = self._router.destination_of(facts, self._policy)
        if destination == decision.destination:
            return None
        self._diverged = True
        return Divergence(
            decision.run_id,
            decision.sequence,
            decision.rule,
            decision.destination,
            decision.decided_at,
            rule.name,
            destination,
        )
