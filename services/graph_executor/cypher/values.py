"""Values that a query states, as Python has them, so that the policy can be asked about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from services.graph_executor.cypher.grammar import Node, has, name_of, trees
from services.graph_executor.cypher.scope import Properties
from services.graph_executor.elements import KEY, fits_key
from services.graph_executor.policy import check_properties
from services.kit.tools.executor import ToolRefused

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", "'": "'", '"': '"'}


# What stands for a whole number that is known only when the query runs.
COMPUTED: Final = object()


class Undecided(Exception):
    """A value that is known only when the query runs."""


def value_of(node: Node, parameters: Mapping[str, object]) -> object:
    """Returns the value that a query states. Raises Undecided."""
    if node.data == "literal":
        return _literal(str(node.children[0]))
    if node.data == "signed":
        number = value_of(trees(node)[0], parameters)
        if not isinstance(number, int | float) or isinstance(number, bool):
            raise Undecided
        return -number if has(node, "DASH") else number
    if node.data == "parameter":
        return parameters.get(name_of(trees(node)[0]))
    if node.data == "list":
        return [value_of(item, parameters) for item in trees(node)]
    raise Undecided


def _literal(text: str) -> object:
    if text[0] in "'\"":
        unknown = re.search(r"\\([^ntrbf\\'\"])", text)
        if unknown:
            raise Undecided
        return re.sub(r"\\(.)", lambda match: _ESCAPES[match[1]], text[1:-1])
    words: Mapping[str, object] = {"TRUE": True, "FALSE": False, "NULL": None}
    if text.upper() in words:
        return words[text.upper()]
    return int(text) if text.isdecimal() else float(text)


def check_written(properties: Properties, name: str, value: Node, parameters: Mapping[str, object]) -> object:
    """Returns the value that a property is given: None takes it away; COMPUTED is to be made a whole number.

    Raises ToolRefused.
    """
    try:
        given = value_of(value, parameters)
    except Undecided:
        rule = properties.rules.get(name)
        if rule is not None and rule.type == "integer" and name not in properties.required:
            return COMPUTED
        reason = "key_refused" if name == KEY else "value_undecided"
        told = f"In a query that writes, {name} is a plain value or a parameter, so that it can be checked."
        raise ToolRefused(reason, told) from None
    if name == KEY:
        if not isinstance(given, str) or not fits_key(given):
            raise ToolRefused("key_refused", "A key is a text without control characters or white space at its ends.")
    elif given is not None and (problems := list(check_properties(properties.rules, {name: given}, properties.what))):
        raise ToolRefused("invalid_properties", "; ".join(problems))
    elif given is None and name not in properties.rules:
        raise ToolRefused("invalid_properties", f"{properties.what} has no property {name[:60]!r}.")
    return given
