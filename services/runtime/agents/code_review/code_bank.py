"""The code bank: every fragment that an investigation has read, in the order it was read; it only grows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NotRequired, TypedDict

from signalbox.v1 import code_reading_pb2, sast_pb2

from services.runtime.agents.code_review.finding import last_line
from services.runtime.agents.quoting import one_line

# What a line takes in a prompt beside its text.
LINE_END = 6


class Fragment(TypedDict):
    """Lines of a file at a commit; `symbol` is the definition that starts where the fragment does.

    reading: a serialized `signalbox.v1.CodeReading`; not there in what earlier releases left.
    """

    file: str
    first_line: int
    last_line: int
    commit: str
    content: str
    total_lines: int
    symbol: str
    reading: NotRequired[bytes]


class LinesRead(TypedDict):
    """The reading of a fragment's lines, as state keeps it."""

    file: str
    first_line: int
    last_line: int
    reading: bytes


@dataclass(frozen=True)
class BankLimits:
    """What a bank may hold: the evaluator takes no more fragments, and a message no more characters."""

    fragments: int = 200
    chars: int = 1_000_000


def fragments_of(
    data: Mapping[str, Any], commit: str, readings: Sequence[code_reading_pb2.CodeReading] = ()
) -> list[Fragment]:
    """Returns the fragments of a code tool's result. Raises ValueError and the like for one that is none."""
    items = data.get("fragments") or ()
    if readings and len(readings) != len(items):
        raise ValueError(f"{len(readings)} readings of {len(items)} fragments")
    fragments = [_fragment(item, reading) for item, reading in zip_longest(items, readings) if item.get("lines")]
    for each in fragments:
        if each["commit"] != commit:
            raise ValueError(f"a fragment of the commit {each['commit']}")
        span = each["last_line"] - each["first_line"] + 1
        if not 1 <= each["first_line"] <= each["last_line"] <= each["total_lines"] or span != _lines_in(each):
            raise ValueError(f"{_lines_in(each)} lines as {each['first_line']}-{each['last_line']}")
    return fragments


def stored(fragments: Sequence[Fragment]) -> dict[str, Any]:
    """Returns fragments as state keeps them: readings beside the bank, of which earlier releases take every field.

    A run that this release began, or went on with, fails at no replica of the last one so.
    """
    read = [each for each in fragments if "reading" in each]
    return {
        "code_bank": [{name: value for name, value in each.items() if name != "reading"} for each in fragments],
        "code_readings": [
            LinesRead(
                file=each["file"], first_line=each["first_line"], last_line=each["last_line"], reading=each["reading"]
            )
            for each in read
        ],
    }


def bank_of(state: Mapping[str, Any]) -> list[Fragment]:
    """Returns the fragments that a state keeps, each with the reading of its lines where there is one."""
    readings = {
        (each["file"], each["first_line"], each["last_line"]): each["reading"]
        for each in state.get("code_readings") or ()
    }
    bank = []
    for fragment in state.get("code_bank") or ():
        reading = readings.get((fragment["file"], fragment["first_line"], fragment["last_line"]))
        bank.append(fragment if reading is None else Fragment({**fragment, "reading": reading}))  # type: ignore[typeddict-item]
    return bank


def read_spans(bank: Iterable[Fragment]) -> list[tuple[str, int, int]]:
    """Returns the file, first and last line of what was read, in order, joined where fragments touch."""
    spans: list[tuple[str, int, int]] = []
    for file, first, last in sorted((each["file"], each["first_line"], each["last_line"]) for each in bank):
        if spans and spans[-1][0] == file and first <= spans[-1][2] + 1:
            spans[-1] = (file, spans[-1][1], max(spans[-1][2], last))
        else:
            spans.append((file, first, last))
    return spans


def _file(path: Any) -> str:
    if not isinstance(path, str) or not path:
        raise TypeError(f"a file called {path!r}")
    return path


def _lines_in(fragment: Fragment) -> int:
    return fragment["content"].count("\n") + 1


def _fragment(item: Mapping[str, Any], reading: code_reading_pb2.CodeReading | None) -> Fragment:
    first = int(item["first_line"])
    enclosing = item.get("enclosing") or {}
    # Only where the definition starts is it certain that the fragment does not begin inside a comment.
    symbol = str(enclosing.get("name", "")) if enclosing.get("first_line") == first else ""
    if reading is not None and not reading.unread and len(reading.lines) != len(item["lines"]):
        raise ValueError(f"a reading of {len(reading.lines)} lines for {len(item['lines'])}")
    fragment = Fragment(
        file=_file(item["path"]),
        first_line=first,
        last_line=int(item["last_line"]),
        commit=str(item["commit"]),
        content="\n".join(item["lines"]),
        total_lines=int(item["total_lines"]),
        symbol=symbol,
    )
    return fragment if reading is None else {**fragment, "reading": reading.SerializeToString()}


def reading_of(fragment: Fragment) -> code_reading_pb2.CodeReading | None:
    """Returns what is known of a fragment's lines, or None when nobody told."""
    return code_reading_pb2.CodeReading.FromString(fragment["reading"]) if "reading" in fragment else None


def new_code(known: Sequence[Fragment], found: Iterable[Fragment], limits: BankLimits) -> list[Fragment]:
    """Returns the fragments that add lines to what is known and still fit in."""
    bank = list(known)
    chars = sum(len(fragment["content"]) for fragment in bank)
    for fragment in found:
        fits = len(bank) < limits.fragments and chars + len(fragment["content"]) <= limits.chars
        # What was read before readings were given is read again, where they are given now.
        known_lines = [each for each in bank if "reading" in each] if "reading" in fragment else bank
        if fits and not is_known(known_lines, fragment["file"], fragment["first_line"], fragment["last_line"]):
            bank.append(fragment)
            chars += len(fragment["content"])
    return bank[len(known) :]


def is_known(bank: Iterable[Fragment], file: str, first: int, last: int) -> bool:
    """Tells whether all lines of a range are in the bank."""
    missing = set(range(first, last + 1))
    for fragment in bank:
        if fragment["file"] == file and fragment["first_line"] <= last and first <= fragment["last_line"]:
            missing.difference_update(range(fragment["first_line"], fragment["last_line"] + 1))
    return not missing


def files_of(fragments: Iterable[Fragment]) -> list[str]:
    """Returns the files that fragments are of, each once."""
    return list(dict.fromkeys(fragment["file"] for fragment in fragments))


def listing(bank: Iterable[Fragment]) -> list[dict[str, Any]]:
    """Returns what has been read, without the code."""
    return [_place(fragment) for fragment in bank]


def shown(bank: Sequence[Fragment], finding: sast_pb2.Finding, max_chars: int) -> list[dict[str, Any]]:
    """Returns the code as data of a prompt, every line with its number.

    When it is too much, what the finding names and what was read last is kept, and the rest is named. Of a fragment
    that is too much by itself the lines around what the finding names are kept.
    """
    kept = _kept(bank, finding, max_chars)
    return [{**_place(fragment), **kept.get(index, {"left_out": True})} for index, fragment in enumerate(bank)]


def as_protos(bank: Iterable[Fragment]) -> list[sast_pb2.CodeFragment]:
    """Returns the fragments as the evaluator takes them."""
    return [_as_proto(fragment) for fragment in bank]


def _as_proto(fragment: Fragment) -> sast_pb2.CodeFragment:
    return sast_pb2.CodeFragment(
        file=fragment["file"],
        first_line=fragment["first_line"],
        last_line=fragment["last_line"],
        commit=fragment["commit"],
        content=fragment["content"],
        total_lines=fragment["total_lines"],
        symbol=fragment["symbol"],
        reading=reading_of(fragment),
    )


def _kept(bank: Sequence[Fragment], finding: sast_pb2.Finding, max_chars: int) -> dict[int, dict[str, Any]]:
    """Returns the lines that are shown of fragments, by index."""
    places = [finding.location, *finding.trace, *finding.related]
    named = {
        index: place.first_line
        for index, fragment in enumerate(bank)
        for place in reversed(places)
        if _holds(fragment, place)
    }
    newest = [index for index in reversed(range(len(bank))) if index not in named]
    kept: dict[int, dict[str, Any]] = {}
    left = max_chars
    for index in [*named, *newest]:
        lines = _numbered(bank[index])
        # As a prompt has them: long numbers before short lines count.
        sizes = [len(json.dumps(line, ensure_ascii=False)) + LINE_END for line in lines]
        if (size := sum(sizes)) <= left:
            left -= size
            kept[index] = {"code": lines}
        elif index in named or not kept:
            first, last = _around(sizes, named.get(index, 0) - bank[index]["first_line"], left)
            left -= sum(sizes[first:last])
            kept[index] = {"code": lines[first:last], "lines_left_out": len(lines) - (last - first)}
    return kept


def _around(sizes: Sequence[int], middle: int, most: int) -> tuple[int, int]:
    """Returns the range of lines around one, as many as fit."""
    first = last = min(max(0, middle), len(sizes) - 1)
    left = most
    while True:
        before = first - 1 if first > 0 and sizes[first - 1] <= left else -1
        after = last if last < len(sizes) and sizes[last] <= left else -1
        if after >= 0 and (before < 0 or after - middle <= middle - before):
            left, last = left - sizes[after], last + 1
        elif before >= 0:
            left, first = left - sizes[before], before
        else:
            return first, last


def _holds(fragment: Fragment, place: sast_pb2.CodeLocation) -> bool:
    same_file = fragment["file"] == place.file
    return same_file and fragment["first_line"] <= last_line(place) and place.first_line <= fragment["last_line"]


def _place(fragment: Fragment) -> dict[str, Any]:
    about = {"symbol": fragment["symbol"]} if fragment["symbol"] else {}
    span = {name: fragment[name] for name in ("file", "first_line", "last_line", "total_lines")}
    return {**span, **about}


def _numbered(fragment: Fragment) -> list[str]:
    lines = fragment["content"].split("\n")
    return [f"{number} | {one_line(line)}" for number, line in enumerate(lines, fragment["first_line"])]
