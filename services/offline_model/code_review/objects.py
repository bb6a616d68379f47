"""Objects that the program changes under all their names: lists, maps, settings, and parsers with features."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Final

from services.offline_model.code_review.conditions import Env
from services.offline_model.code_review.library import Called
from services.offline_model.code_review.shown import dotted
from services.offline_model.code_review.values import Constant, Value, join, listed, mapped

Change = Callable[[Value], Value]
SETTINGS: Final = "configparser.ConfigParser"
PARSER: Final = "xml.sax.make_parser"
_FILLS = frozenset({"append", "appendleft", "add"})
_OTHERS = frozenset({"remove", "discard", "sort", "reverse", "insert", "popitem", "setdefault", "write", "writelines",
                     "extend", "update", "pop"})  # fmt: skip


def cell_of(node: ast.AST) -> int:
    """Returns the number of the object that an expression makes."""
    return getattr(node, "lineno", 0) * 10_000 + getattr(node, "col_offset", 0) + 1


def new_object(called: Called, cell: int) -> Value | None:
    """Returns the object that a call makes, when its later changes can be followed."""
    if called.name in (SETTINGS, "configparser.RawConfigParser"):
        return _made_by(mapped([], cell), SETTINGS)
    return _made_by(mapped([], cell), PARSER) if called.name == PARSER else None


def change_by(called: Called, receiver: Value) -> Change | None:
    """Returns how a call changes the object it is made on; None when it is not one that does."""
    if receiver.made_by in (SETTINGS, PARSER) and (told := _told(called, receiver)) is not None:
        return partial(_with_entries, more=(told,))
    if not (receiver.cells or receiver.items is not None or receiver.entries is not None):
        return None
    if called.method == "clear":
        return lambda old: listed([]) if old.items is not None else mapped([])
    exact = _exact(called, receiver)
    if exact is not None:
        return exact
    return (lambda old: Value(old.sources | called.sources)) if called.method in _FILLS | _OTHERS else None


def _told(called: Called, receiver: Value) -> tuple[Constant, Value] | None:
    """Returns what settings or a parser are told: for which name, and what."""
    if receiver.made_by == SETTINGS and called.method == "set" and len(called.args) > 2:
        section, name, value = called.args[:3]
        key = tuple(one.only.value if one.only else None for one in (section, name))
        return Constant(tuple, key), value
    if receiver.made_by == PARSER and called.method == "setFeature" and len(called.args) > 1:
        feature, value = called.args[:2]
        return Constant(str, feature.refers or str(feature.only)), value
    return None


def _exact(called: Called, receiver: Value) -> Change | None:
    """Returns a change that is known item by item."""
    first = called.args[0] if called.args else None
    if called.method == "pop" and receiver.items is not None and (first is None or _is_index(first)):
        return partial(_without, at=first.only.value if first is not None and first.only else -1)
    if first is None or called.keywords or called.spread:
        return None
    if called.method in _FILLS:
        return partial(_with_items, more=(first,))
    if called.method == "extend" and first.items is not None:
        return partial(_with_items, more=first.items)
    if called.method == "update" and first.entries is not None:
        return partial(_with_entries, more=first.entries)
    return None


def storing(index: Value, value: Value) -> Change:
    """Returns how `holder[index] = value` changes the holder."""
    return partial(_with_stored, index=index, value=value)


def change_object(node: ast.expr, holder: Value, how: Change, env: Env) -> None:
    """Changes an object, under every name that it has; `node` is the expression that it is reached by."""
    if not holder.cells:
        name = dotted(node)
        if name and isinstance(node, ast.Name | ast.Attribute):
            env[name] = how(env.get(name, holder))
        return

    def changed(value: Value) -> Value:
        if value.items is not None and any(item.cells for item in value.items):
            value = _with_cells(listed([changed(item) for item in value.items]), value)
        if value.entries is not None and any(item.cells for _, item in value.entries):
            value = _with_cells(mapped([(key, changed(item)) for key, item in value.entries]), value)
        if not value.cells & holder.cells:
            return value
        # The place that makes an object may have made several: only the one at hand is changed for sure.
        return join([value, _with_cells(how(value), value)])

    own = node.id if isinstance(node, ast.Name) else ""
    for name in list(env):
        value = env[name]
        is_sure = name == own and value.cells == holder.cells and len(value.cells) == 1
        env[name] = _with_cells(how(value), value) if is_sure else changed(value)


def _with_cells(new: Value, old: Value) -> Value:
    """Returns a new state of an old object."""
    return Value(new.sources, new.constants, new.texts, new.items, new.entries, old.cells, old.refers, old.made_by)


def _made_by(value: Value, name: str) -> Value:
    return Value(value.sources, None, None, value.items, value.entries, value.cells, "", name)


def _is_index(value: Value) -> bool:
    return value.only is not None and value.only.kind is int


def _with_items(old: Value, more: tuple[Value, ...]) -> Value:
    if old.items is None:
        return Value(old.sources.union(*(one.sources for one in more)))
    return listed([*old.items, *more])


def _with_entries(old: Value, more: tuple[tuple[Constant, Value], ...]) -> Value:
    if old.entries is None:
        return Value(old.sources.union(*(one.sources for _, one in more)))
    return mapped([*old.entries, *more])


def _with_stored(old: Value, index: Value, value: Value) -> Value:
    if old.entries is not None and index.only is not None:
        return mapped([*old.entries, (index.only, value)])
    if old.items is not None and index.only is not None and index.only.kind is int:
        at = index.only.value
        if -len(old.items) <= at < len(old.items):
            items = list(old.items)
            items[at] = value
            return listed(items)
    return Value(old.sources | value.sources | index.sources)


def _without(old: Value, at: int) -> Value:
    if old.items is None or not -len(old.items) <= at < len(old.items):
        return Value(old.sources)
    items = list(old.items)
    del items[at]
    return listed(items)
