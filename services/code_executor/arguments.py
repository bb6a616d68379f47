"""Arguments of the tools, and the JSON Schemas made of them.

`source` is the platform's to fill: marked `x-signalbox-injected` in the schema, so that the runtime takes it out of
what the model sees, drops what a model puts there, and fills it from the run's own input.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, TypeVar

from google.protobuf import struct_pb2
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema

from services.code_executor.errors import ArgumentRefused, SourceRefused
from services.kit.text.problems import problems_of

INJECTED = "x-signalbox-injected"
MAX_LINE = 10_000_000
MAX_CONTEXT_LINES = 150
_MAX_DEPTH = 4
_LOCATION = re.compile(r"(?P<path>.+?)(?::|#L)(?P<first>\d{1,7})(?:(?:-L?|:)(?P<last>\d{1,7}))?")


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not hold a NUL character")
    return text


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise ValueError("must be one line: the search goes line by line")
    return text


Text = Annotated[str, AfterValidator(_no_nul)]
Path = Annotated[str, Field(max_length=4096)]
Line = Annotated[int, Field(ge=1, le=MAX_LINE)]
Maybe = SkipJsonSchema[None]


class SourceArgument(BaseModel):
    """Which commit of which repository; filled in by the platform."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    repository: Text = Field(description="Absolute path or URL of the repository.", max_length=2048)
    commit: Text = Field(description="Full commit id, 40 hexadecimal digits.", max_length=64)


class ToolArguments(BaseModel):
    """What every tool takes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    source: Annotated[SourceArgument, Field(json_schema_extra={INJECTED: True})]


class FetchCode(ToolArguments):
    """Arguments of fetch_code."""

    path: Path | Maybe = Field(
        None, description="File, relative to the repository, such as src/app.py; app.py:42 and app.py:42-60 work too."
    )
    symbol: Annotated[Text, Field(min_length=1, max_length=256)] | Maybe = Field(
        None, description="Function, class, method or variable: run, Server.run or ns::Server::run."
    )
    first_line: Line | Maybe = Field(None, description="First line wanted, counted from 1; needs path.")
    last_line: Line | Maybe = Field(None, description="Last line wanted; default first_line.")
    context_lines: Annotated[int, Field(ge=0, le=MAX_CONTEXT_LINES)] | Maybe = Field(
        None, description="Lines around the wanted ones; by default the whole function around them, if not too long."
    )


class ReadFile(ToolArguments):
    """Arguments of read_file."""

    path: Path = Field(description="File, relative to the repository, such as src/app.py.")
    first_line: Line | Maybe = Field(None, description="First line wanted, counted from 1; default 1.")
    last_line: Line | Maybe = Field(None, description="Last line wanted; default the file's last.")


class SearchCodebase(ToolArguments):
    """Arguments of search_codebase."""

    pattern: Annotated[Text, AfterValidator(_one_line), Field(min_length=1, max_length=512)] = Field(
        description="Text to look for, as it stands in the code."
    )
    regex: bool = Field(False, description="True when the pattern is a regular expression (Rust's syntax).")
    ignore_case: bool = Field(False, description="True when upper and lower case are the same.")
    path: Path = Field("", description="Folder or file to search; default everything.")
    glob: Annotated[Text, AfterValidator(_one_line), Field(max_length=256)] = Field(
        "", description="Only files whose names match, such as *.py or src/**/*.ts."
    )
    context_lines: Annotated[int, Field(ge=0, le=20)] = Field(2, description="Lines shown around each match.")
    max_results: Annotated[int, Field(ge=1, le=2000)] = Field(50, description="Most matching lines wanted.")


class ListDirectory(ToolArguments):
    """Arguments of list_directory."""

    path: Path = Field("", description="Folder, relative to the repository; default its top.")
    depth: Annotated[int, Field(ge=1, le=5)] = Field(1, description="Levels of folders shown.")


class FindFile(ToolArguments):
    """Arguments of find_file."""

    name: Annotated[Text, Field(min_length=1, max_length=512)] = Field(
        description="Name or part of a path (settings.py, api/users), or a glob (*_test.go, src/**/*.ts)."
    )
    path: Path = Field("", description="Folder to look in; default everywhere.")
    max_results: Annotated[int, Field(ge=1, le=2000)] = Field(50, description="Most paths wanted.")


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


def read_arguments(model: type[ArgumentsT], arguments: struct_pb2.Struct) -> ArgumentsT:
    """Checks a call's arguments. Raises ArgumentRefused, SourceRefused when the platform's part is wrong."""
    values = {name: _plain(value, 0) for name, value in arguments.fields.items()}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = problems_of(error)
    message = "; ".join(map(str, problems[:5]))
    if all(problem.place.split(".")[0] == "source" for problem in problems):
        raise SourceRefused("source_invalid", message)
    raise ArgumentRefused("invalid_arguments", message)


def split_location(path: str) -> tuple[str, int, int] | None:
    """Splits `file:line`, `file:first-last` and `file#Lfirst-Llast`; None when a path is none of these."""
    match = _LOCATION.fullmatch(path)
    if match is None:
        return None
    first = int(match["first"])
    return match["path"], first, int(match["last"] or first)


def input_schema(model: type[ToolArguments]) -> dict[str, Any]:
    """Returns the JSON Schema of a tool's arguments: no references, no titles, no defaults of null."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {name: _simple(value, definitions) for name, value in schema["properties"].items()},
        "required": schema["required"],
        "additionalProperties": False,
    }


def _simple(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    merged = {**schema, **definitions[schema["$ref"].rpartition("/")[2]]} if "$ref" in schema else dict(schema)
    for name in ("$ref", "title"):
        merged.pop(name, None)
    if merged.get("default", 0) is None:
        del merged["default"]
    if "properties" in merged:
        merged["properties"] = {name: _simple(value, definitions) for name, value in merged["properties"].items()}
    return merged


def _plain(value: struct_pb2.Value, depth: int) -> Any:
    """Turns a value of a Struct into Python's; a whole number becomes an int, as all its numbers are doubles."""
    kind = value.WhichOneof("kind")
    if depth > _MAX_DEPTH:
        raise ArgumentRefused("invalid_arguments", "the arguments are nested too deeply")
    if kind == "struct_value":
        return {name: _plain(inner, depth + 1) for name, inner in value.struct_value.fields.items()}
    if kind == "list_value":
        return [_plain(inner, depth + 1) for inner in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if math.isfinite(number) and number.is_integer() else number
    return None if kind in (None, "null_value") else getattr(value, kind)
