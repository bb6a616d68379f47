"""Whether a server's JSON Schema can be held against values without end: what it refers to is part of what it costs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

# Schemas that one value may have to be held against, those that others refer to counted as often as they do.
MOST_SCHEMAS: Final = 10_000
# Places of what refers to itself that are held against each other.
MOST_COMPARED: Final = 100_000
# Keywords that hold schemas for the same value, for items of it, for its fields, and for what its fields are called.
_SAME: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
_ITEMS: Final = ("items", "contains", "unevaluatedItems")
_FIELDS: Final = ("additionalProperties", "unevaluatedProperties", "patternProperties")
_NAMES: Final = ("propertyNames",)
_BY_NAME: Final = ("dependentSchemas", "patternProperties")
# Where in a value a part of it is: `.name` of a field, `[0]` of an item; these are any field and any item.
_ANY_FIELD, _ANY_ITEM, _A_NAME = ".*", "[]", "name"
_TOO_MANY_WAYS: Final = "its schemas refer to each other in too many ways"
# What a schema is referred by that nothing refers to.
_ROOT: Final = ""
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")


class EndlessSchemaError(ValueError):
    """A schema that may take for ever, or refers to what is not in it."""


def check_schema_ends(schema: Mapping[str, Any]) -> None:
    """Raises EndlessSchemaError for a schema that may be held against a value more often than the value is large."""
    walk = _Walk(schema)
    walk.visit(schema, ())
    reached = {each: _reached(each, walk.referred) for each in walk.referred}
    _check_size(walk, reached)
    _check_once(walk.referred, reached)


_Place = tuple[str, ...]
# A place in a value that is still to be gone to, and what is referred to there.
_State = tuple[_Place, str]


class _Walk:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._around = _ROOT
        # Of the schema, and of all that is referred to: how many schemas there are, and where in its value it refers
        # to what.
        self.counts = {_ROOT: 0}
        self.referred: dict[str, list[_State]] = {_ROOT: []}

    def visit(self, schema: Any, place: _Place) -> None:
        """Visits a schema for the value at a place."""
        if not isinstance(schema, Mapping):
            return
        self.counts[self._around] += 1
        if wrong := next((each for each in _ELSEWHERE if each in schema), None):
            raise EndlessSchemaError(f"{wrong} is not read")
        if "$id" in schema and schema is not self._root:
            raise EndlessSchemaError("a schema in it has an $id of its own, which is not read")
        if isinstance(reference := schema.get("$ref"), str):
            self._follow(reference, place)
        for name, inner in _inside(schema):
            self.visit(inner, (*place, name) if name else place)

    def _follow(self, reference: str, place: _Place) -> None:
        around = self._around
        self.referred[around].append((place, reference))
        if reference in self.referred:
            return
        self._around, self.counts[reference], self.referred[reference] = reference, 0, []
        self.visit(self._target(reference), ())
        self._around = around

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


def _check_size(walk: _Walk, reached: Mapping[str, set[str]]) -> None:
    """Raises EndlessSchemaError where what is referred to is too much, each as often as it is, or itself at once."""
    counts: dict[str, int] = {}

    def count(reference: str) -> int:
        if reference not in counts:
            further = (each for _, each in walk.referred[reference] if reference not in reached[each])
            counts[reference] = walk.counts[reference] + sum(map(count, further))
        return counts[reference]

    if sum(walk.counts.values()) > MOST_SCHEMAS or count(_ROOT) > MOST_SCHEMAS:
        raise EndlessSchemaError(f"what it refers to makes more than {MOST_SCHEMAS:,} schemas of it")
    same = {each: [way for way in ways if not way[0]] for each, ways in walk.referred.items()}
    if wrong := next((each for each in same if each in _reached(each, same)), None):
        raise EndlessSchemaError(_more_than_once(wrong))


def _check_once(referred: Mapping[str, list[_State]], reached: Mapping[str, set[str]]) -> None:
    """Raises EndlessSchemaError where two ways lead from what refers to itself to the same, for the same value."""
    again = {each for each in referred if each in reached[each]}
    # Whatever is again reaches itself.
    onward = {each: [way for way in ways if again & reached[way[1]]] for each, ways in referred.items()}
    pairs: list[tuple[_State, _State]] = [(((), each), ((), each)) for each in referred if each in again]
    seen = set(pairs)
    compared = itertools.count()
    for first, second in pairs:
        ways = itertools.product(_steps(first, onward), _steps(second, onward))
        for (place, one, number), (other, two, other_number) in ways:
            if next(compared) > MOST_COMPARED:
                raise EndlessSchemaError(_TOO_MANY_WAYS)
            if not _may_be_same(place, other) or (first == second and number >= other_number):
                continue
            if one == two and one[1] in again:
                raise EndlessSchemaError(_more_than_once(one[1]))
            if (one, two) not in seen:
                seen.add((one, two))
                pairs.append((one, two))


def _reached(reference: str, referred: Mapping[str, list[_State]]) -> set[str]:
    found, waiting = set[str](), [reference]
    while waiting:
        new = {target for _, target in referred[waiting.pop()]} - found
        found |= new
        waiting += new
    return found


def _steps(state: _State, referred: Mapping[str, list[_State]]) -> list[tuple[str, _State, int]]:
    """Returns one step further into a value: where, what is ahead then, and the number of the way."""
    ways, waiting = list[_State](), [state]
    while waiting:
        place, reference = waiting.pop()
        if place:
            ways.append((place, reference))
        else:
            waiting += referred[reference]
        if len(ways) + len(waiting) > MOST_SCHEMAS:
            raise EndlessSchemaError(_TOO_MANY_WAYS)
    return [(place[0], (place[1:], reference), number) for number, (place, reference) in enumerate(ways)]


def _may_be_same(place: str, other: str) -> bool:
    return place == other or (place[0] == other[0] and not {place, other}.isdisjoint((_ANY_FIELD, _ANY_ITEM)))


def _more_than_once(reference: str) -> str:
    return f"{reference} refers to itself more than once for the same value"


def _inside(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields schemas in a schema, each with where in the value its own is; empty where it is the same."""
    fields, items = schema.get("properties"), schema.get("prefixItems")
    yield from ((f".{name}", each) for name, each in fields.items()) if isinstance(fields, Mapping) else ()
    yield from ((f"[{number}]", each) for number, each in enumerate(items)) if isinstance(items, list) else ()
    for keywords, name in ((_SAME, ""), (_ITEMS, _ANY_ITEM), (_FIELDS, _ANY_FIELD), (_NAMES, _A_NAME)):
        for keyword in keywords:
            held = schema.get(keyword)
            if isinstance(held, Mapping) and keyword in _BY_NAME:
                held = list(held.values())
            yield from ((name, each) for each in (held if isinstance(held, list) else [held]))
