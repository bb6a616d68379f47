"""Decisions of the ledger, explained: by the table that made them, under the limits that it made them with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from signalbox_routing import explaining
from signalbox_routing.explaining import Alternative, ExplainedRule
from signalbox_routing.facts import as_dict
from signalbox_routing.table import Router
from signalbox_routing.terms import Always, Term
from signalbox_routing.words import Case

from services.runtime.routing.digest import policy_version

BEHIND = "would have held, and another rule came first"


@dataclass(frozen=True)
class Explanation:
    """A stored decision: the rules that were tried, those behind them, and what would have led elsewhere."""

    rules: list[ExplainedRule]
    alternatives: list[Alternative]
    later: list[ExplainedRule] = field(default_factory=list)


@dataclass(frozen=True)
class Nearness:
    """How near a rule was to firing; `used` is the part of its limit, 0 to 1, where it holds a count against one."""

    rule: str
    missed_by: str
    used: float | None
    fired: bool


class Explainer(explaining.Explainer):
    """Explains what a table has decided; limits are changed within their bounds only."""

    def __init__(self, router: Router[Any, Any]) -> None:
        super().__init__(router)
        self._facts, self._policy = TypeAdapter[Any](router.facts_type), TypeAdapter[Any](type(router.policy))
        self._limits = {term.name for term in router.terms if self._is_limit(term)}
        bounded = get_type_hints(type(router.policy), include_extras=True)
        self._bounds = {name: TypeAdapter[Any](bounded[name]) for name in self._limits}

    def stored(
        self,
        rule: str,
        facts: Mapping[str, Any],
        grounds: Mapping[str, Any],
        policy_version: str,
        pinned: Any = None,
    ) -> Explanation | None:
        """Explains a decision of the ledger; None where the table of today would not decide as it did.

        `pinned` is the policy that its run is pinned to. `grounds` are all that its rules read: of a policy other than
        that and today's they have the limits that mattered, and not those of later rules.
        """
        case = self._case(rule, facts, grounds, policy_version, pinned)
        if case is None:
            return None
        given, policy = case.facts, case.policy
        told, alternatives = self.rules(given, policy), self.alternatives(given, policy)
        if self._known(policy_version, pinned) is None:
            tried = {each.rule for each in told}
            return Explanation(told, [each for each in alternatives if each.rule in tried])
        later = [self._told(each, case) for each in self._router.rules[len(told) :]]
        return Explanation(told, alternatives, later)

    def breakers(
        self,
        rule: str,
        facts: Mapping[str, Any],
        grounds: Mapping[str, Any],
        policy_version: str,
        pinned: Any = None,
    ) -> list[Nearness]:
        """Returns how near a stored decision was to each breaker of its table; none where `stored` explains nothing."""
        case = self._case(rule, facts, grounds, policy_version, pinned)
        if case is None or self._known(policy_version, pinned) is None:
            return []
        return [
            Nearness(
                each.name,
                case.missed_by(each.when) or BEHIND * (each.name != rule),
                case.used(each.when),
                each.name == rule,
            )
            for each in self._router.rules
            if each.is_breaker and (each.name == rule or not isinstance(each.when, Always))
        ]

    def _case(
        self, rule: str, facts: Mapping[str, Any], grounds: Mapping[str, Any], policy_version: str, pinned: Any
    ) -> Case | None:
        known = self._known(policy_version, pinned)
        try:
            given = self._facts.validate_python(dict(facts))
            policy = self._policy_of(grounds) if known is None else known
        except ValidationError:
            return None
        fired, _ = self._router.destination_of(given, policy)
        return Case(self._records, given, policy) if fired.name == rule else None

    def _known(self, version: str, pinned: Any) -> Any:
        """Returns the policy of a version, if it is the run's or today's."""
        policies = filter(None, (pinned, self._router.policy))
        return next((policy for policy in policies if policy_version(policy) == version), None)

    def _policy_of(self, grounds: Mapping[str, Any]) -> Any:
        limits = {name: value for name, value in grounds.items() if name in self._limits}
        return self._policy.validate_python({**as_dict(self._router.policy), **limits})

    def _is_possible(self, term: Term, old: Any, new: Any) -> bool:
        """Whether operators may set a limit so, or a fact may be so."""
        if not self._is_limit(term):
            return super()._is_possible(term, old, new)
        try:
            self._bounds[term.name].validate_python(new)
        except ValidationError:
            return False
        return True
