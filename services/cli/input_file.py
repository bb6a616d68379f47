"""An agent's input from a file: JSON or YAML, checked against the agent's schema before anything is sent."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

import jsonschema
import yaml
from google.protobuf import struct_pb2
from google.protobuf.json_format import ParseDict, ParseError
from signalbox.v1 import hosted_pb2, runs_pb2

from services.cli.client import MAX_MESSAGE_BYTES
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.findings.errors import UTF16
from services.kit.text.exact_json import exact_json
from services.kit.text.yaml_text import Loader, parse_yaml
from services.kit.wire.carried_json import NotCarriedError, check_carried
from services.kit.wire.input_schema import schema_of

STANDARD_INPUT = Path("-")
# YAML is read at half a million characters a second, JSON a hundred times as fast.
LONGEST_YAML = 4 * 1024 * 1024
PROBLEMS_SHOWN = 20
LONGEST_VALUE = 60
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(Loader):
    """YAML in which a date is the text that it is written as, as in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in Loader.yaml_implicit_resolvers.items()
}


def read_input(agent: str, path: Path) -> runs_pb2.RunInput:
    """The input that a file holds, `-` for standard input. Raises CliError that names every field that is wrong."""
    place = "standard input" if path == STANDARD_INPUT else str(path)
    text = _beginning(path)
    if len(text) > MAX_MESSAGE_BYTES:
        raise _wrong(place, f"is no input of {agent}: it has more than {MAX_MESSAGE_BYTES:,} characters", agent)
    return parse_input(agent, text, place)


def parse_input(agent: str, text: str, place: str) -> runs_pb2.RunInput:
    """The input that a text holds. Raises CliError."""
    try:
        document = _document(text)
    except yaml.YAMLError as error:
        raise _wrong(place, f"is neither JSON nor YAML: {str(error)[:300]}", agent) from error
    return agent_input(agent, document, place)


def agent_input(agent: str, document: Any, place: str) -> runs_pb2.RunInput:
    """The input that a document is. Raises CliError that names every field that is wrong."""
    schema = schema_of(agent)
    # What an input must hold is said by the schema; an empty file holds nothing.
    document = {} if document is None else document
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    found = sorted(_leaves(checker.iter_errors(document)), key=lambda error: list(map(str, error.absolute_path)))
    if found:
        lines = [f"\n  {_path(error.absolute_path)}: {_said(error)}" for error in found[:PROBLEMS_SHOWN]]
        more = f"\n  and {len(found) - PROBLEMS_SHOWN} more" if len(found) > PROBLEMS_SHOWN else ""
        raise _wrong(place, f"is no input of {agent}:{''.join(lines)}{more}", agent)
    try:
        return ParseDict({agent: document}, runs_pb2.RunInput())
    except ParseError as error:
        raise _wrong(place, f"is no input of {agent}: {error}", agent) from error


def graph_input(
    agent: str, document: Mapping[str, Any], place: str, *, context: Mapping[str, Any] | None = None
) -> runs_pb2.RunInput:
    """The input of a hosted graph, whose own schema the platform checks it by. Raises CliError."""
    asked = hosted_pb2.GraphInput(agent=agent, input=struct_of(document, place))
    if context is not None:
        asked.context.CopyFrom(struct_of(context, "the context"))
    return runs_pb2.RunInput(graph=asked)


def struct_of(document: Mapping[str, Any], place: str) -> struct_pb2.Struct:
    """An object in a message. Raises CliError for what would not arrive as it is."""
    struct = struct_pb2.Struct()
    try:
        check_carried(document)
    except NotCarriedError as error:
        hint = "write what JSON has: texts, numbers, lists and objects"
        raise CliError(f"{place} can't be sent: it {error}", hint=hint, code=ExitCode.USAGE) from error
    struct.update(document)
    return struct


def read_document(path: Path) -> dict[str, Any]:
    """The object that a file holds, for a graph whose own schema the platform checks it by. Raises CliError."""
    place = "standard input" if path == STANDARD_INPUT else str(path)
    try:
        document = _document(_beginning(path))
    except yaml.YAMLError as error:
        hint = "write an object, such as {}"
        raise CliError(
            f"{place} is neither JSON nor YAML: {str(error)[:300]}", hint=hint, code=ExitCode.USAGE
        ) from error
    if not isinstance(document, dict):
        raise CliError(f"{place} holds no object", hint="write an object, such as {}", code=ExitCode.USAGE)
    return document


def _document(text: str) -> Any:
    try:
        return exact_json(text, unique=True)
    except ValueError as error:
        if len(text) > LONGEST_YAML:
            raise yaml.YAMLError(f"{error}; as YAML it may have {LONGEST_YAML:,} characters") from error
        return parse_yaml(text, _Loader)


def _beginning(path: Path) -> str:
    """As much of a text as tells whether it is longer than what can be sent."""
    try:
        with opened_text(path) as file:
            return file.read(MAX_MESSAGE_BYTES + 1)
    except OSError as error:
        hint = "name a file, or `-` for standard input"
        raise CliError(f"can't read {path}: {error.strerror}", hint=hint, code=ExitCode.USAGE) from error
    except UnicodeDecodeError as error:
        wrong = f"{path} is not {error.encoding.upper()}"
        raise CliError(wrong, hint="write the file in UTF-8", code=ExitCode.USAGE) from error


@contextmanager
def opened_text(path: Path) -> Iterator[TextIO]:
    """Opens a file, `-` for standard input: UTF-8, or UTF-16 as Windows shells write it. Raises OSError."""
    with ExitStack() as stack:
        given = sys.stdin.buffer if path == STANDARD_INPUT else stack.enter_context(path.open("rb"))
        # One that was closed is the null device, without a buffer.
        file = given if isinstance(given, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", given))
        text = io.TextIOWrapper(file, "utf-16" if file.peek(2).startswith(UTF16) else "utf-8-sig")
        stack.callback(text.detach)
        yield text


def _leaves(errors: Iterable[Any]) -> list[Any]:
    """The innermost problems: that one of several did not fit says little."""
    found = []
    for error in errors:
        found += _leaves(error.context) if error.context and error.validator != "oneOf" else [error]
    return found


def _path(parts: Iterable[str | int]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return path.removeprefix(".") or "the input"


def _said(error: Any) -> str:
    if error.validator == "oneOf":
        names = [each["required"][0] for each in error.validator_value if "required" in each]
        return f"set exactly one of: {', '.join(names)}"
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        unknown = ", ".join(map(str, sorted(set(error.instance) - set(known), key=str)))
        return f"there is no field {unknown}; there are {', '.join(known)}"
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return f"{', '.join(missing)} must be there"
    if error.validator == "pattern":
        value = repr(error.instance)
        shown = value if len(value) <= LONGEST_VALUE else value[:LONGEST_VALUE] + "…"
        return f"{shown} does not match {error.validator_value}"
    message: str = error.message
    # Only the value is long; what is wrong with it stands behind it.
    value = repr(error.instance)
    return message.replace(value, value[:LONGEST_VALUE] + "…") if len(value) > LONGEST_VALUE else message


def _wrong(place: str, what: str, agent: str) -> CliError:
    hint = f"`signalbox run {agent} --schema` says what it takes"
    return CliError(f"{place} {what}", hint=hint, code=ExitCode.USAGE)
