"""Findings with known truth: small programs put together at random, each run to see whether it is a weakness.

This knows nothing of how findings are judged.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench import labelled_flows
from tests.bench.labelled_runs import is_vulnerable
from tests.bench.labelled_uses import USES

WEAKNESSES = tuple(sorted((*labelled_flows.WEAKNESSES, *USES)))


@dataclass(frozen=True)
class Labelled:
    """A program, the line that is flagged, and whether it is a weakness."""

    cwe: str
    rule: str
    code: str
    line: int
    vulnerable: bool


def labelled_findings(count: int, seed: int) -> Iterator[Labelled]:
    """Yields findings, as many of each weakness, always the same for a seed."""
    chance = random.Random(seed)  # noqa: S311 - programs for a test
    while count:
        found = _finding(chance, WEAKNESSES[count % len(WEAKNESSES)])
        if found is not None:
            count -= 1
            yield found


def _finding(chance: random.Random, cwe: str) -> Labelled | None:
    """Returns a finding; None when what was put together does not work at all."""
    try:
        if cwe in USES:
            make, is_weak = USES[cwe]
            rule, code, line = make(chance)
            return Labelled(cwe, rule, code, line, is_weak(code))
        rule, code, line = labelled_flows.flow_program(chance, cwe)
        return Labelled(cwe, rule, code, line, is_vulnerable(code, cwe))
    except (TypeError, AttributeError, UnboundLocalError, SyntaxError):
        return None
