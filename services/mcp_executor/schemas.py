"""Whether a server's JSON Schema can be held against values without end: what it refers to is part of what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

# Schemas that one value may have to be held against, those that others refer to counted as often as they do.
MOST_SCHEMAS: Final = 10_000
# Keywords that hold schemas for the same value, for values inside of it, and by the name of a field.
_SAME: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
_INSIDE: Final = (
    "items", "prefixItems", "contains", "additionalProperties", "unevaluatedItems", "unevaluatedProperties",
    "propertyNames", "patternProperties",
)  # fmt: skip
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")


class EndlessSchemaError(ValueError):
    """A schema that may take for ever, or refers to what is not in it."""


def check_schema_ends(schema: Mapping[str, Any]) -> None:
    """Raises EndlessSchemaError for a schema that may be held against a value more often than the value is large."""
    _Walk(schema).visit(schema, ())


class _Walk:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._count = 0
        # What is referred to amid its own schema, with the places in a value at which it is again.
        self._open: dict[str, tuple[int, set[tuple[str, ...]]]] = {}

    def visit(self, schema: Any, place: tuple[str, ...]) -> None:
        """Visits a schema for the value at a place."""
        if not isinstance(schema, Mapping):
            return
        self._count += 1
        if self._count > MOST_SCHEMAS:
            raise EndlessSchemaError(f"what it refers to makes more than {MOST_SCHEMAS:,} schemas of it")
        if wrong := next((each for each in _ELSEWHERE if each in schema), None):
            raise EndlessSchemaError(f"{wrong} is not read")
        if "$id" in schema and schema is not self._root:
            raise EndlessSchemaError("a schema in it has an $id of its own, which is not read")
        if isinstance(reference := schema.get("$ref"), str):
            self._follow(reference, place)
        for name, inner in _inside(schema):
            self.visit(inner, (*place, name) if name else place)

    def _follow(self, reference: str, place: tuple[str, ...]) -> None:
        if reference not in self._open:
            self._open[reference] = len(place), set()
            self.visit(self._target(reference), place)
            del self._open[reference]
            return
        depth, places = self._open[reference]
        if place[depth:] in places or not place[depth:]:
            raise EndlessSchemaError(f"{reference} refers to itself more than once for the same value")
        places.add(place[depth:])

    def _target(self, reference: str) -> Any:
        found: Any = self._root
        if reference != "#" and not reference.startswith("#/"):
            raise EndlessSchemaError(f"{reference[:200]} is not in it, and nothing is fetched")
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, Mapping) and name in found:
                found = found[name]
            else:
                raise EndlessSchemaError(f"{reference[:200]} is not in it")
        return found


def _inside(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields schemas in a schema, each with the name of the field that it is for; empty where for the same value."""
    fields = schema.get("properties")
    yield from fields.items() if isinstance(fields, Mapping) else ()
    for keywords, name in ((_SAME, ""), (_INSIDE, "*")):
        for keyword in keywords:
            held = schema.get(keyword)
            if isinstance(held, Mapping) and keyword in ("dependentSchemas", "patternProperties"):
                held = list(held.values())
            yield from ((name, each) for each in (held if isinstance(held, list) else [held]))
