"""Any output for people to read, as its descriptor says what it holds: nothing here knows an agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from signalbox.v1 import caller_pb2, table_pb2

from services.cli.tables import rows
from services.kit.text.printing import printable
from services.kit.text.words import tokens

INDENT = 2
# Text beyond it, or of several lines, stands below its name.
SHORT = 80


def rendered(message: Message) -> Group:
    """What a message holds, field by field and in their order; what is unset is left out."""
    return Group(*_fields(message))


def _fields(message: Message) -> Iterator[RenderableType]:
    for field, value in message.ListFields():
        name = field.name.replace("_", " ")
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            yield _titled(name, Group(*(_line(str(key), _scalar(None, value[key])) for key in sorted(value))))
        elif field.is_repeated:
            yield from _list(name, field, list(value))
        else:
            yield _one(name, field, value)


def _list(name: str, field: FieldDescriptor, values: list[Any]) -> Iterator[RenderableType]:
    if field.message_type is None:
        texts = [_scalar(field, value) for value in values]
        if sum(map(len, texts)) <= SHORT and not any("\n" in text for text in texts):
            yield _line(name, ", ".join(texts))
        else:
            yield _titled(name, Group(*(Text(f"- {text}") for text in texts)))
        return
    yield Text(f"{name}:", style="dim")
    for number, value in enumerate(values, start=1):
        yield Padding.indent(_titled(f"{number}", _content(value), end="."), INDENT)


def _one(name: str, field: FieldDescriptor, value: Any) -> RenderableType:
    if field.message_type is None:
        return _line(name, _scalar(field, value))
    if isinstance(value, caller_pb2.TokenUsage):
        return _line(name, tokens(value))
    return _titled(name, _content(value))


def _content(value: Message) -> RenderableType:
    if isinstance(value, table_pb2.Table):
        return rows(value)
    if value.DESCRIPTOR.file.package == "google.protobuf":  # which JSON has a form of its own for
        return Text(printable(MessageToJson(value, ensure_ascii=False).strip('"')))
    return rendered(value)


def _line(name: str, text: str) -> RenderableType:
    if len(text) <= SHORT and "\n" not in text:
        return Text.assemble((f"{name}: ", "dim"), text)
    return _titled(name, Text(text))


def _titled(name: str, content: RenderableType, end: str = ":") -> RenderableType:
    return Group(Text(f"{name}{end}", style="dim"), Padding.indent(content, INDENT))


def _scalar(field: FieldDescriptor | None, value: Any) -> str:
    if field is not None and field.enum_type is not None:
        return _enum_name(field, value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def _enum_name(field: FieldDescriptor, number: int) -> str:
    """`TRUE_POSITIVE` for `VERDICT_TRUE_POSITIVE`: what all names of an enum begin with says nothing."""
    values: Mapping[int, Any] = field.enum_type.values_by_number if field.enum_type else {}
    if number not in values:
        return str(number)
    prefix = values[0].name.removesuffix("UNSPECIFIED") if 0 in values else ""
    return str(values[number].name.removeprefix(prefix))
