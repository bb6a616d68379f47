"""Why a table decided as it did: every rule in words, by how much it was missed, and what would have changed it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from signalbox_routing.compiled import FACTS, Records
from signalbox_routing.table import END, Router, Rule
from signalbox_routing.terms import Term, TermKind, Value, comparisons_of
from signalbox_routing.words import Case, in_words, value_in_words


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


class Explainer:
    """Explains what a table decides on facts, under limits."""

    def __init__(self, router: Router[Any, Any]) -> None:
        self._router = router
        self._records = Records(router.facts_type, type(router.policy))
        held_against: dict[tuple[type, str], tuple[Term, list[Term | Value]]] = {}
        for rule in router.rules:
            for condition in (rule.when, *rule.choice):
                for term, other in comparisons_of(condition):
                    held_against.setdefault(term.key, (term, []))[1].append(other)
        self._held_against = list(held_against.values())

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
        """Whether a fact or limit may be so: what is not negative does not become so."""
        return not (term.kind.is_numeric and new < 0 <= old)


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


def explained(router: Router[Any, Any], state: Any) -> str:
    """Returns why a table leads where it does from a state, for a person: a line for each rule that was tried.

    Raises what reading the state raises, and UnkeptFactsError.
    """
    decision, explainer = router.decide(state), Explainer(router)
    facts = router.facts(state)
    lines = [f"{router.name}: {decision.rule}, to {_place(decision.destination)}"]
    lines += [
        f"  {each.rule}: {each.condition}" + (f" ({each.missed_by})" if each.missed_by else "")
        for each in explainer.rules(facts, router.policy)
    ]
    lines += [
        f"  {each.change}: {each.rule}, to {_place(each.destination)}"
        for each in explainer.alternatives(facts, router.policy)
    ]
    return "\n".join(lines)


def _place(destination: str) -> str:
    return "the end" if destination == END else destination
