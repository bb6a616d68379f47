"""Which rule a result is of, what that says in words, and which weakness (CWE) it is about."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from services.findings.sarif.fingerprints import original_message
from services.findings.sarif.log import (
    Component,
    ComponentReference,
    Descriptor,
    DescriptorReference,
    Message,
    Result,
    Run,
)

NO_RULE = "(no rule)"
_SEVERITY_PROPERTY = "security-severity"
_CWE = re.compile(r"\bcwe[-_ :/]*0*(\d{1,6})\b", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{(\d{1,4})\}")
_NUMBER = re.compile(r"0*([0-9]{1,6})")
_CWE_PROPERTIES = ("cwe", "cwe_id", "cwe-id", "issue_cwe", "tags")


class Severity(StrEnum):
    """How bad a finding is if it is true, the worst first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


# Where scores of 0 to 10 begin, as code scanning of GitHub's has it, and what a log without scores says.
_SCORES = ((9.0, Severity.CRITICAL), (7.0, Severity.HIGH), (4.0, Severity.MEDIUM))
_LEVELS = {"error": Severity.HIGH, "warning": Severity.MEDIUM, "note": Severity.LOW, "none": Severity.LOW}


class RuleBook:
    """The rules of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        driver, extensions = run.tool.driver, run.tool.extensions
        self._by_id = {rule.id: rule for component in (*extensions, driver) for rule in component.rules}

    def rule_of(self, result: Result) -> Descriptor | None:
        """Returns the rule a result refers to, by id, index or reference."""
        component = _component(result.rule.tool_component, self._run) or self._run.tool.driver
        for index in (result.rule.index, result.rule_index):
            if 0 <= index < len(component.rules):
                return component.rules[index]
        name = result.rule_id or result.rule.id
        while name:
            if name in self._by_id:
                return self._by_id[name]
            # `CA1000/1` is a case of the rule `CA1000`.
            name = name.rpartition("/")[0]
        return next((rule for rule in component.rules if rule.guid and rule.guid == result.rule.guid), None)

    def rule_id_of(self, result: Result) -> str:
        """Returns the id of a result's rule."""
        rule = self.rule_of(result)
        return result.rule_id or result.rule.id or (rule.id if rule else "") or NO_RULE

    def words_of(self, result: Result) -> str:
        """Returns a result's message, also when it stands in the rule."""
        message, rule = result.message, self.rule_of(result)
        text = original_message(result) or message.markdown
        if not text and rule:
            strings: Mapping[str, Message] = rule.message_strings
            message = strings.get(message.id, rule.short_description)
            text = message.text or message.markdown
        return _PLACEHOLDER.sub(lambda match: _argument(match, result.message.arguments), text)

    def severity_of(self, result: Result) -> Severity:
        """Returns how bad it is: by the score of the result or its rule, else by their level."""
        rule = self.rule_of(result)
        for properties in (result.properties, rule.properties if rule else {}):
            if (score := _score(properties.get(_SEVERITY_PROPERTY))) is not None:
                return next((severity for least, severity in _SCORES if score >= least), Severity.LOW)
        level = result.level or (rule.default_configuration.level if rule else "")
        return _LEVELS.get(level, Severity.MEDIUM)

    def cwe_of(self, result: Result) -> str:
        """Returns the weakness as `CWE-78`; empty when nothing names one."""
        rule = self.rule_of(result)
        found = [*_in_taxa(result.taxa, self._run), *_in_properties(result.properties)]
        if rule and not found:
            targets = [relationship.target for relationship in rule.relationships]
            found = [*_in_properties(rule.properties), *_in_taxa(targets, self._run), *_in_text(rule.id)]
        return f"CWE-{found[0]}" if found else ""


def _score(value: Any) -> float | None:
    try:
        score = float(value)
    except (TypeError, ValueError):
        return None
    return score if math.isfinite(score) else None


def _argument(match: re.Match[str], arguments: Sequence[str]) -> str:
    number = int(match[1])
    return arguments[number] if number < len(arguments) else match[0]


def _component(reference: ComponentReference | None, run: Run) -> Component | None:
    if reference is None:
        return None
    if 0 <= reference.index < len(run.tool.extensions):
        return run.tool.extensions[reference.index]
    return _named(reference, (*run.tool.extensions, run.tool.driver))


def _named(reference: ComponentReference, components: Iterable[Component]) -> Component | None:
    for component in components:
        if (reference.guid and reference.guid == component.guid) or (
            reference.name and reference.name == component.name
        ):
            return component
    return None


def _in_taxa(references: Iterable[DescriptorReference], run: Run) -> Iterator[str]:
    for reference in references:
        component = reference.tool_component
        taxonomy = None
        if component is not None:
            indexed = 0 <= component.index < len(run.taxonomies)
            taxonomy = run.taxonomies[component.index] if indexed else _named(component, run.taxonomies)
        name = (taxonomy.name if taxonomy else "") or (component.name if component else "")
        taxon = reference.id
        if not taxon and taxonomy and 0 <= reference.index < len(taxonomy.taxa):
            taxon = taxonomy.taxa[reference.index].id
        number = _NUMBER.fullmatch(taxon)
        if name.upper() == "CWE" and number:
            yield number[1]
        else:
            yield from _in_text(taxon)


def _in_properties(properties: Mapping[str, Any]) -> Iterator[str]:
    for name in _CWE_PROPERTIES:
        yield from _in_value(properties.get(name), plain_number=name != "tags")


def _in_value(value: Any, *, plain_number: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = value.get("id")
    number = _NUMBER.fullmatch(str(value)) if plain_number and isinstance(value, str | int) else None
    if number:
        yield number[1]
    elif isinstance(value, str):
        yield from _in_text(value)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _in_value(item, plain_number=plain_number)


def _in_text(text: str) -> Iterator[str]:
    yield from _CWE.findall(text)
