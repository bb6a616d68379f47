"""Why a table decided as it did: every rule in words, by how much it was missed, and what would have changed it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from signalbox_routing.compiled import FACTS, Records
from signalbox_routing.table import Router, Rule, as_dict, policy_version
from signalbox_routing.terms import Always, Term, TermKind, Value, comparisons_of
from signalbox_routing.words import Case, in_words, value_in_words

BEHIND = "would have held, and another rule came first"


@dataclass(frozen=True)
class ExplainedRule:
    """A rule: what it asks for, whether that holds, and by how much it was missed where it does not."""

    rule: str
    condition: str
    holds: bool
    missed_by: str


@dataclass(frozen=True)
class Alternative:
    """One fact or limit with another value, in words, the rule that would have fired then, and where it leads."""

    change: str
    is_limit: bool
    rule: str
    destination: str


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


class Explainer:
    """Explains what a table decides, and has decided."""

    def __init__(self, router: Router[Any, Any]) -> None:
        self._router = router
        self._records = Records(router.facts_type, type(router.policy))
        self._facts, self._policy = TypeAdapter[Any](router.facts_type), TypeAdapter[Any](type(router.policy))
        self._limits = {term.name for term in router.terms if self._is_limit(term)}
        bounded = get_type_hints(type(router.policy), include_extras=True)
        self._bounds = {name: TypeAdapter[Any](bounded[name]) for name in self._limits}
        held_against: dict[tuple[type, str], tuple[Term, list[Term | Value]]] = {}
        for rule in router.rules:
            for condition in (rule.when, *rule.choice):
                for term, other in comparisons_of(condition):
                    held_against.setdefault(term.key, (term, []))[1].append(other)
        self._held_against = list(held_against.values())

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

    def rules(self, facts: Any, policy: Any) -> list[ExplainedRule]:
        """Returns the rules that were tried, in order; the last of them holds."""
        case, told = Case(self._records, facts, policy), list[ExplainedRule]()
        for rule in self._router.rules:
            told.append(self._told(rule, case))
            if told[-1].holds:
                break
        return told

    def _told(self, rule: Rule, case: Case) -> ExplainedRule:
        condition = in_words(rule.when, case.policy)
        return ExplainedRule(rule.name, condition, case.holds(rule.when), case.missed_by(rule.when))

    def alternatives(self, facts: Any, policy: Any) -> list[Alternative]:
        """Returns by rule the smallest change of a fact or limit by which it would have led elsewhere; smallest first.

        Every one of them is decided by the table itself, and every limit is one that can be set.
        """
        _, led_to = self._router.destination_of(facts, policy)
        nearest: dict[tuple[str, bool], tuple[float, Alternative]] = {}
        for term, old, new, said in self._changes(Case(self._records, facts, policy)):
            is_limit = self._is_limit(term)
            changed = dataclasses.replace(policy if is_limit else facts, **{term.name: new})
            rule, destination = self._router.destination_of(*((facts, changed) if is_limit else (changed, policy)))
            key, size = (rule.name, is_limit), _size(old, new)
            if destination != led_to and (key not in nearest or size < nearest[key][0]):
                change = f"{term.name} {said} instead of {value_in_words(old)}"
                nearest[key] = size, Alternative(change, is_limit, rule.name, destination)
        return [alternative for _, alternative in sorted(nearest.values(), key=lambda found: found[0])]

    def _changes(self, case: Case) -> Iterator[tuple[Term, Any, Any, str]]:
        """Yields every term with its value and those on either side of what it is held against, these in words too."""
        for term, others in self._held_against:
            old = case.value(term)
            for new, said in _values(term, [case.value(other) for other in others]):
                if new != old and self._is_possible(term, old, new):
                    yield term, old, new, said

    def _is_limit(self, term: Term) -> bool:
        return self._records.name_of(term) != FACTS

    def _is_possible(self, term: Term, old: Any, new: Any) -> bool:
        """Whether operators may set a limit so; counts that are not negative do not become so."""
        if not self._is_limit(term):
            return not (term.kind.is_numeric and new < 0 <= old)
        try:
            self._bounds[term.name].validate_python(new)
        except ValidationError:
            return False
        return True


def _values(term: Term, others: Sequence[Any]) -> list[tuple[Any, str]]:
    """Returns values on every side of what a term is held against, in words too."""
    if term.kind is TermKind.FLAG:
        return [(each, value_in_words(each)) for each in (True, False)]
    if term.kind is TermKind.TEXT:
        known = [(each, value_in_words(each)) for each in others]
        return [*known, ("".join(others) + "…", "something else" if any(others) else "not empty")]
    found: dict[Any, str] = {}
    for other in others:
        if term.kind is TermKind.INTEGER and math.isfinite(other):
            found |= {each: str(each) for each in range(math.floor(other) - 1, math.floor(other) + 2)}
        else:
            said = value_in_words(other)
            found |= {math.nextafter(other, -math.inf): f"just under {said}", other: said}
            found |= {math.nextafter(other, math.inf): f"just over {said}"}
    return list(found.items())


def _size(old: Any, new: Any) -> float:
    """How far a change is; another text or flag is as far as the next whole number."""
    return abs(float(new) - float(old)) if isinstance(old, int | float) and not isinstance(old, bool) else 1.0
