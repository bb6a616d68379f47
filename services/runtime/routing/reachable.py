"""What can be said of a table by itself, of whose nodes nothing is known: which of its rules no facts come to."""

from __future__ import annotations

import itertools
import math
from typing import Any

from signalbox_routing.table import Router

from services.runtime.routing.variables import NotAModel, variables_of_table

MOST_CASES = 200_000


def unreached_rules(router: Router[Any, Any]) -> list[str]:
    """Returns the rules that no facts come to under its policy. Raises NotAModel where there are too many cases."""
    variables = variables_of_table(router)
    cases = math.prod(len(variable.values) for variable in variables)
    if cases > MOST_CASES:
        raise NotAModel(f"{router.name}: {cases:,} cases are too many to look at")
    left = {rule.name: None for rule in router.rules}
    names = [variable.name for variable in variables]
    for values in itertools.product(*(variable.values for variable in variables)):
        rule, _ = router.destination_of(router.facts_type(**dict(zip(names, values, strict=True))))
        left.pop(rule.name, None)
        if not left:
            break
    return list(left)
