"""Requests as they must be: the rules are in the protos, here is what enforces them and words what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import protovalidate
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from protovalidate import FieldPathElementPb

from services.kit.errors import FieldViolation, InvalidRequest

MessageT = TypeVar("MessageT", bound=Message)
# The stubs know two kinds of descriptors, and messages have either.
AnyDescriptor = Any


class RequestReader:
    """Reads requests from their wire form, so that also one that can't be parsed gets a clear answer."""

    def __init__(self) -> None:
        self._validator = protovalidate.Validator()

    def read(self, request_type: type[MessageT], wire: bytes) -> MessageT:
        """Parses and validates a request. Raises InvalidRequest, with the fields that are wrong."""
        name = request_type.DESCRIPTOR.full_name
        try:
            request = request_type.FromString(wire)
        except DecodeError as error:
            what = "holds text that is not UTF-8" if "UTF-8" in str(error) else "is not a valid message of its type"
            raise InvalidRequest(f"the request can't be read: it {what} ({name})") from error
        violations = [
            describe(request_type.DESCRIPTOR, violation)
            for violation in self._validator.collect_violations(request)
            if not _may_be_newer(request, violation)
        ]
        if violations:
            fields = ", ".join(dict.fromkeys(violation.field for violation in violations))
            raise InvalidRequest(f"the request breaks the rules of {name}: {fields}", violations=violations)
        return request


def _may_be_newer(request: Message, violation: protovalidate.Violation) -> bool:
    """Whether a choice that seems to be missing may have been made: of what only a newer release knows.

    Such a request is passed on as it came, for a replica that knows it.
    """
    elements = violation.proto.field.elements if violation.proto.field else []
    if violation.proto.rule_id != "required" or not elements or elements[-1].field_number:
        return False
    held: Any = request
    for element in elements[:-1]:
        held = getattr(held, element.field_name)
    return len(UnknownFieldSet(held)) > 0


def describe(descriptor: AnyDescriptor, violation: protovalidate.Violation) -> FieldViolation:
    """Word a violation for the caller: dotted path, what is wrong, and the rule's id as reason."""
    path = violation.proto.field
    elements = path.elements if path else []
    field = dotted(elements)
    rule, value = violation.proto.rule_id, violation.field_value
    description = violation.proto.message
    if elements and not elements[-1].field_number:
        choices = _choices(descriptor, [element.field_name for element in elements])
        description = f"set exactly one of: {', '.join(choices)}"
    elif isinstance(value, str) and "\x00" in value:
        description = "must not contain NUL characters"
    elif rule == "string.pattern" and isinstance(value, str) and not value.strip():
        description = "must not be blank"
    return FieldViolation(field=field, description=description, reason=rule)


def dotted(elements: Iterable[FieldPathElementPb]) -> str:
    """A field's path as `create.input.data_chat.question` or `items[2].name`."""
    return ".".join(
        element.field_name + (f"[{element.subscript.value!r}]" if element.subscript is not None else "")
        for element in elements
    )


def _choices(descriptor: AnyDescriptor, names: list[str]) -> list[str]:
    *parents, oneof = names
    for parent in parents:
        descriptor = descriptor.fields_by_name[parent].message_type
    return [field.name for field in descriptor.oneofs_by_name[oneof].fields]
