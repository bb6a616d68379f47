"""What an expression may hold, as far as the code that was shown tells."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from services.offline_model.code_review.opinion import Need

# Where a part of a value comes from. What the program itself chooses has no origin worth a name.
OUTSIDE: Final = "outside"  # whoever sends a request
UNKNOWN: Final = "unknown"  # a place that was not shown, or that is beyond these rules
CHECKED: Final = "checked"  # one of a list that the program holds
NUMBER: Final = "number"
WORD: Final = "word"  # letters, digits and underscores only
ESCAPED: Final = "escaped"  # written so that one kind of reader takes it for text
INSIDE: Final = "inside"  # a resolved path that was found to be beneath a directory

MAX_ALTERNATIVES = 12
MAX_ITEMS = 64
MAX_PARTS = 60


@dataclass(frozen=True)
class Origin:
    """One place that a value comes from.

    doubted: something was asked of it, or done to it, that may have taken the harm out. how: for what is escaped, the
    reader that it is escaped for.
    """

    kind: str
    what: str
    file: str
    line: int
    need: Need | None = None
    doubted: bool = False
    how: str = ""


@dataclass(frozen=True)
class Hole:
    """A part of a text that is not known letter by letter."""

    sources: frozenset[Origin]


Part = str | Hole
Text = tuple[Part, ...]


@dataclass(frozen=True)
class Constant:
    """A constant; its type tells 1 from True."""

    kind: type
    value: Any


@dataclass(frozen=True)
class Value:
    """What an expression may hold.

    sources: every place that takes part in it. constants: all that it can be, when that is known. texts: all ways that
    the text was put together. items, entries: what a list or a map holds, when each is known. cells: which objects it
    may be, for what can change. refers: the full name, for functions, modules and classes. made_by: the full name of
    the call that made it.
    """

    sources: frozenset[Origin] = frozenset()
    constants: frozenset[Constant] | None = None
    texts: frozenset[Text] | None = None
    items: tuple[Value, ...] | None = None
    entries: tuple[tuple[Constant, Value], ...] | None = None
    cells: frozenset[int] = frozenset()
    refers: str = ""
    made_by: str = ""

    @property
    def truth(self) -> bool | None:
        """Whether it is true, when that is known."""
        if self.constants is not None:
            found = {bool(constant.value) for constant in self.constants}
            return found.pop() if len(found) == 1 else None
        if self.items is not None:
            return bool(self.items)
        return bool(self.entries) if self.entries is not None else None

    @property
    def only(self) -> Constant | None:
        """The one constant that it is."""
        return next(iter(self.constants)) if self.constants is not None and len(self.constants) == 1 else None

    @property
    def element(self) -> Value:
        """What any of its items may be."""
        if self.items is not None:
            return join(self.items) if self.items else Value()
        if self.entries is not None:
            return join([value for _, value in self.entries]) if self.entries else Value()
        return Value(self.sources)

    @property
    def iterated(self) -> Value:
        """What a loop over it gives: the keys of a map, and the items of anything else."""
        if self.entries is not None:
            return Value(self.sources, constants=frozenset(key for key, _ in self.entries)) if self.entries else Value()
        return self.element

    @property
    def doubted(self) -> Value:
        """The value with a doubt about what comes from outside; without what is known of its letters."""
        return Value(doubt(self.sources))

    @property
    def changed(self) -> Value:
        """The value after its text was cut or changed: an escape or a check of the whole holds no longer."""
        return Value(frozenset(_undone(one) if one.kind in (ESCAPED, INSIDE) else one for one in self.sources))

    @property
    def part(self) -> Value:
        """What belongs to the value and is another: no check of the whole holds for it."""
        told = (ESCAPED, INSIDE, WORD, NUMBER)
        return Value(frozenset(_undone(one) if one.kind in told else one for one in self.sources))

    @property
    def decoded(self) -> Value:
        """The value read from another notation: no check of the letters before holds."""
        return Value(frozenset(one if one.kind in (OUTSIDE, UNKNOWN) else _undone(one) for one in self.sources))


def _undone(origin: Origin) -> Origin:
    return replace(origin, kind=UNKNOWN, what=f"{origin.what}, and changed after that")


def doubt(sources: Iterable[Origin]) -> frozenset[Origin]:
    """Returns origins with a doubt about those from outside."""
    return frozenset(replace(one, doubted=True) if one.kind == OUTSIDE else one for one in sources)


def constant(*values: Any) -> Value:
    """A value that is one of these constants."""
    texts = None
    if all(isinstance(value, str) for value in values):
        texts = frozenset[Text]((value,) for value in values)
    return Value(constants=frozenset(Constant(type(value), value) for value in values), texts=texts)


def of(*origins: Origin) -> Value:
    """A value that comes from somewhere, of which nothing else is known."""
    return Value(frozenset(origins))


def join(values: Sequence[Value]) -> Value:
    """What may be any of several values."""
    first = values[0]
    if all(value == first for value in values):
        return first
    sources = frozenset[Origin]().union(*(value.sources for value in values))
    constants: frozenset[Constant] | None = None
    if all(value.constants is not None for value in values):
        constants = frozenset[Constant]().union(*(value.constants or () for value in values))
    texts = frozenset[Text]().union(*(texts_of(value) for value in values))
    cells = frozenset[int]().union(*(value.cells for value in values))
    lists = {len(value.items) for value in values if value.items is not None}
    items = None
    if len(lists) == 1 and all(value.items is not None for value in values):
        items = tuple(join(column) for column in zip(*(value.items or () for value in values), strict=True))
    keys = {tuple(key for key, _ in value.entries or ()) for value in values}
    entries = None
    if len(keys) == 1 and all(value.entries is not None for value in values):
        columns = zip(*(value.entries or () for value in values), strict=True)
        entries = tuple((column[0][0], join([value for _, value in column])) for column in columns)
    return Value(
        sources=sources,
        constants=constants if constants is not None and len(constants) <= MAX_ALTERNATIVES else None,
        texts=texts if len(texts) <= MAX_ALTERNATIVES and items is None and entries is None else None,
        items=items,
        entries=entries,
        cells=cells,
        refers=_same(value.refers for value in values),
        made_by=_same(value.made_by for value in values),
    )


def _same(names: Iterable[str]) -> str:
    found = set(names)
    return found.pop() if len(found) == 1 else ("?" if any(found) else "")


def listed(items: Sequence[Value], cell: int = 0) -> Value:
    """A list of these items."""
    sources = frozenset[Origin]().union(*(item.sources for item in items))
    kept = tuple(items) if len(items) <= MAX_ITEMS else None
    return Value(sources, items=kept, cells=frozenset({cell}) if cell else frozenset())


def key_of(known: Constant) -> Constant:
    """The key that a map takes a constant for: 1, 1.0 and True are one."""
    return Constant(int, known.value) if known.kind in (bool, float) else known


def mapped(entries: Sequence[tuple[Constant, Value]], cell: int = 0, *, more: frozenset[Origin] = frozenset()) -> Value:
    """A map with these entries."""
    found: dict[Constant, Value] = {}
    for key, value in entries:
        found[key_of(key)] = value
    sources = more.union(*(value.sources for value in found.values()))
    kept = tuple(found.items()) if len(found) <= MAX_ITEMS and not more else None
    return Value(sources, entries=kept, cells=frozenset({cell}) if cell else frozenset())


def texts_of(value: Value) -> frozenset[Text]:
    """Returns the ways that a value's text is put together; one hole when nothing is known."""
    if value.texts is not None:
        return value.texts
    if value.constants is not None and value.constants:
        return frozenset((str(one.value),) for one in value.constants)
    return frozenset({(Hole(value.sources),)})


def concatenated(values: Sequence[Value]) -> Value:
    """The texts of several values, one after the other."""
    sources = frozenset[Origin]().union(*(value.sources for value in values))
    alternatives = [texts_of(value) for value in values]
    count = 1
    for texts in alternatives:
        count *= len(texts)
    if count > MAX_ALTERNATIVES:
        return Value(sources)
    texts = frozenset(_merged(itertools.chain(*parts)) for parts in itertools.product(*alternatives))
    if any(len(text) > MAX_PARTS for text in texts):
        return Value(sources)
    plain = all(len(text) <= 1 and all(isinstance(part, str) for part in text) for text in texts)
    known = frozenset(Constant(str, text[0] if text else "") for text in texts) if plain else None
    return Value(sources, constants=known, texts=texts)


def _merged(parts: Iterable[Part]) -> Text:
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return tuple(merged)
