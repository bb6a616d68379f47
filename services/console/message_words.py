"""What a message of the contract holds, in words for readers who know nothing of the contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from services.kit.text.words import fact

LONGEST_VALUE = 400


def words_of(message: Message) -> list[tuple[str, str]]:
    """Returns a message's fields as name and text, those within others after the name of these."""
    values = MessageToDict(message, preserving_proto_field_name=True)
    return list(_words((), values, message.DESCRIPTOR.fields_by_name, None))


def common_beginning(names: Sequence[str]) -> str:
    """Returns what all names of an enum begin with, up to a low line: it says nothing."""
    first = names[0].removesuffix("UNSPECIFIED")
    return first if first.endswith("_") and all(name.startswith(first) for name in names) else ""


def _words(path: tuple[str, ...], value: Any, fields: Mapping[str, Any], field: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        # What a team named has no order of its own.
        named = value.items() if all(name in fields for name in value) else sorted(value.items())
        for name, inner in named:
            known = fields.get(name)
            within = known.message_type.fields_by_name if known is not None and known.message_type else {}
            yield from _words((*path, name.replace("_", " ") if known is not None else name), inner, within, known)
        return
    text = _choice(value, field.enum_type) if field is not None and field.enum_type else value
    text = text if isinstance(text, str) else fact(text)
    yield " · ".join(path), text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _choice(value: Any, enum: Any) -> str:
    """Returns one or more values of an enum; a number where this release does not know it."""
    beginning = common_beginning([each.name for each in enum.values])
    chosen = value if isinstance(value, list) else [value]
    return ", ".join(str(each).removeprefix(beginning).replace("_", " ").lower() for each in chosen)
