"""Packing what a step changed, and putting a channel together again as it was at any version."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from services.runtime.engine.changes import (
    SHORTEST_BASE,
    History,
    Stored,
    growth,
    marked,
    pack_changes,
    pack_writes,
    unpack_writes,
)
from services.runtime.engine.serde import make_serde, mark_of

SERDE = make_serde()
ITEMS = [f"item {number}" for number in range(SHORTEST_BASE)]
ENTRIES = {name: name.upper() for name in ITEMS}


class Saved:
    """Checkpoints saved one after another, on one branch unless told otherwise."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.checkpoints: list[tuple[dict[str, str], dict[str, Any]]] = []
        self._branches = itertools.count(1)

    def save(self, parent: int | None = None, **changed: Any) -> int:
        """Saves the channels that changed since a parent, by default the last checkpoint; returns its number."""
        if parent is None:
            parent = len(self.checkpoints) - 1
        versions, values = self.checkpoints[parent] if parent >= 0 else ({}, {})
        stored = {channel: Stored(versions[channel], value) for channel, value in values.items()}
        new = {channel: f"{_number(versions, channel) + 1:010}.{next(self._branches):012x}" for channel in changed}
        values = {**values, **changed}
        self.rows.append(pack_changes(SERDE, values, new, stored))
        self.checkpoints.append(({**versions, **new}, values))
        return len(self.checkpoints) - 1

    def read(self, number: int) -> dict[str, Any]:
        """Reads a checkpoint's values back."""
        return History(SERDE, self.rows).values(self.checkpoints[number][0])

    def bases(self, number: int) -> Mapping[str, Any]:
        """The versions that a row builds on, by channel."""
        found: Mapping[str, Any] = ormsgpack.unpackb(self.rows[number])["bases"]
        return found

    def check(self) -> None:
        """Checks that every checkpoint reads back as it was saved, maps in their order too."""
        for number, (_, values) in enumerate(self.checkpoints):
            assert ordered(self.read(number)) == ordered(values)


def _number(versions: Mapping[str, str], channel: str) -> int:
    return int(versions[channel].split(".")[0]) if channel in versions else 0


def ordered(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values in a form that compares the order of maps."""
    return {name: list(value.items()) if isinstance(value, dict) else value for name, value in values.items()}


def test_what_a_list_gained_at_its_end_is_its_growth() -> None:
    assert growth(ITEMS, [*ITEMS, "more", "still more"]) == ["more", "still more"]
    assert growth(ITEMS, list(ITEMS)) == []


def test_what_a_map_gained_at_its_end_is_its_growth() -> None:
    assert growth(ENTRIES, {**ENTRIES, "more": "MORE", "none": None}) == {"more": "MORE", "none": None}
    assert growth(ENTRIES, dict(ENTRIES)) == {}


@pytest.mark.parametrize(
    "after",
    [
        ITEMS[:-1],
        [*ITEMS[:-1], "another", "more"],
        [*reversed(ITEMS), "more"],
        ["more", *ITEMS],
        [],
        tuple(ITEMS),
        dict.fromkeys(ITEMS),
        None,
    ],
)
def test_a_list_that_did_not_only_grow_has_no_growth(after: object) -> None:
    assert growth(ITEMS, after) is None


@pytest.mark.parametrize(
    "after",
    [
        {name: ENTRIES[name] for name in ITEMS[:-1]},
        {**{name: ENTRIES[name] for name in ITEMS[:-1]}, "more": "MORE", "still more": "MORE"},
        {**ENTRIES, ITEMS[0]: "another", "more": "MORE"},
        {"more": "MORE", **ENTRIES},
        dict(reversed(ENTRIES.items())),
        {},
        list(ENTRIES),
    ],
)
def test_a_map_that_did_not_only_grow_has_no_growth(after: object) -> None:
    assert growth(ENTRIES, after) is None


def test_a_removed_entry_without_a_value_is_noticed() -> None:
    before = dict.fromkeys(ITEMS)
    assert growth(before, {**dict.fromkeys(ITEMS[1:]), "more": None}) is None


def test_by_their_marks_items_that_were_changed_in_place_are_no_growth() -> None:
    items: list[dict[str, int]] = [{"n": number} for number in range(5)]
    for value, change in ((items, items[0]), (dict(zip("abcde", items, strict=True)), items[1])):
        before = marked(value, mark_of)
        assert growth(before, value, marked(value, mark_of)) == type(value)()
        change["n"] = 99
        assert growth(before, value, marked(value, mark_of)) is None
    before = marked(items, mark_of)
    items.append({"n": 5})
    assert growth(before, items, marked(items, mark_of)) == [{"n": 5}]


def test_an_equal_item_that_is_another_object_may_differ_inside_and_is_no_growth() -> None:
    before = [HumanMessage(name, id=name) for name in ITEMS]
    assert growth(before, [*before, AIMessage("more")]) == [AIMessage("more")]
    assert growth(before, [*before[:-1], before[-1].model_copy(), AIMessage("more")]) is None


def test_short_values_are_stored_whole() -> None:
    short = ITEMS[: SHORTEST_BASE - 1]
    assert growth(short, [*short, "more"]) is None


def test_a_step_takes_room_for_what_it_added_only() -> None:
    saved = Saved()
    saved.save(messages=[HumanMessage("x" * 500, id=str(number)) for number in range(1000)])
    saved.save(messages=[*saved.checkpoints[-1][1]["messages"], AIMessage("y" * 500)])
    assert len(saved.rows[1]) < len(saved.rows[0]) / 500
    saved.check()


def test_a_channel_that_did_not_change_takes_no_room() -> None:
    saved = Saved()
    saved.save(code=ENTRIES, messages=["x" * 5000])
    saved.save(code={**ENTRIES, "more": "MORE"})
    assert b"xxx" not in saved.rows[1]
    saved.check()


def test_an_empty_channel_reads_as_absent() -> None:
    row = pack_changes(SERDE, {"kept": 1}, {"kept": "1.a", "empty": "1.b"}, {})
    assert History(SERDE, [row]).values({"kept": "1.a", "empty": "1.b"}) == {"kept": 1}


def test_branches_of_a_fork_stay_apart_though_their_numbers_are_equal() -> None:
    saved = Saved()
    root = saved.save(messages=ITEMS)
    left = saved.save(root, messages=[*ITEMS, "left"])
    left_again = saved.save(left, messages=[*saved.checkpoints[left][1]["messages"], "left again"])
    right = saved.save(root, messages=[*ITEMS, "right"])
    numbers = {_number(saved.checkpoints[checkpoint][0], "messages") for checkpoint in (left, right)}
    assert len(numbers) == 1
    assert saved.bases(left) == saved.bases(right) == {"messages": saved.checkpoints[root][0]["messages"]}
    assert saved.read(right)["messages"] == [*ITEMS, "right"]
    assert saved.read(left_again)["messages"] == [*ITEMS, "left", "left again"]
    saved.check()


def test_reading_one_version_does_not_change_another() -> None:
    saved = Saved()
    for number in range(5):
        before: dict[str, Any] = saved.checkpoints[-1][1] if number else {"messages": ITEMS, "code": ENTRIES}
        code: dict[str, str] = {**before["code"], f"{number}": ""}
        saved.save(messages=[*before["messages"], f"{number}"], code=code)
    history = History(SERDE, saved.rows)
    for versions, values in [*reversed(saved.checkpoints), *saved.checkpoints]:
        assert ordered(history.values(versions)) == ordered(values)


def test_writes_come_back_as_they_were() -> None:
    writes = [("messages", [AIMessage("hello", id="1")]), ("left", 0), ("left", None)]
    assert unpack_writes(SERDE, pack_writes(SERDE, writes)) == writes


scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3))
names = st.sampled_from("abcdefgh")


@st.composite
def updates(draw: st.DrawFn) -> list[tuple[int, str, str, Any]]:
    """Steps: which checkpoint they follow (counted back), the channel, what happens to it, and with what."""
    step = st.one_of(
        st.tuples(st.integers(0, 3), st.just("items"), st.just("append"), st.lists(scalars, max_size=3)),
        st.tuples(st.integers(0, 3), st.just("items"), st.just("replace"), st.tuples(st.integers(0, 9), scalars)),
        st.tuples(st.integers(0, 3), st.just("items"), st.sampled_from(["pop", "reverse"]), st.none()),
        st.tuples(st.integers(0, 3), st.just("entries"), st.just("merge"), st.dictionaries(names, scalars, max_size=3)),
        st.tuples(st.integers(0, 3), st.just("entries"), st.just("remove"), names),
        st.tuples(st.integers(0, 3), st.just("scalar"), st.just("set"), scalars),
    )
    return draw(st.lists(step, min_size=1, max_size=25))


def updated(value: Any, happening: str, given_value: Any) -> Any:
    """What an update makes of a value; always a new object, as reducers do."""
    match happening:
        case "append":
            return [*value, *given_value]
        case "replace":
            index, item = given_value
            return [item if number == index else old for number, old in enumerate(value)]
        case "pop":
            return value[:-1]
        case "reverse":
            return value[::-1]
        case "merge":
            return {**value, **given_value}
        case "remove":
            return {name: old for name, old in value.items() if name != given_value}
    return given_value


@given(updates())
def test_whatever_happens_every_version_reads_back(steps: list[tuple[int, str, str, Any]]) -> None:
    saved = Saved()
    saved.save(items=[], entries={}, scalar=None)
    for back, channel, happening, given_value in steps:
        parent = max(0, len(saved.checkpoints) - 1 - back)
        value = saved.checkpoints[parent][1][channel]
        saved.save(parent, **{channel: updated(value, happening, given_value)})
    saved.check()
