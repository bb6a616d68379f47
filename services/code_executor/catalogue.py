"""The tools: names, words for the model, arguments, and what does the work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf import struct_pb2
from signalbox.v1 import tools_pb2

from services.code_executor.arguments import (
    FetchCode,
    FindFile,
    ListDirectory,
    ReadFile,
    SearchCodebase,
    ToolArguments,
    input_schema,
    read_arguments,
)
from services.code_executor.fetching import Fetching
from services.code_executor.readings import Readings
from services.code_executor.results import Result
from services.code_executor.searching import Searching
from services.code_executor.snapshots import Snapshot, Snapshots
from services.code_executor.sources import SourcePolicy
from services.kit.identity.caller import Caller
from services.kit.tools.names import (
    FETCH_CODE,
    FIND_FILE,
    LIST_DIRECTORY,
    READ_FILE,
    SEARCH_CODEBASE,
)

# A method of Fetching or Searching, whose arguments are of its tool's model.
Work = Callable[[Snapshot, Any], Awaitable[Result]]


@dataclass(frozen=True)
class Commits:
    """How a tool comes to the commit that its arguments name."""

    policy: SourcePolicy
    snapshots: Snapshots


@dataclass(frozen=True)
class CodeTool:
    """A tool."""

    name: str
    description: str
    arguments: type[ToolArguments]
    work: Work
    commits: Commits
    readings: Readings

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of its arguments."""
        return input_schema(self.arguments)

    async def call(self, arguments: struct_pb2.Struct, _caller: Caller) -> tools_pb2.ToolOutput:
        """Does it on the commit that its arguments name. Raises ToolRefused."""
        checked = read_arguments(self.arguments, arguments)
        source = await self.commits.policy.admit(checked.source.repository)
        async with self.commits.snapshots.use(source, checked.source.commit) as snapshot:
            result = await self.work(snapshot, checked)
        output = tools_pb2.ToolOutput(text=result.text, truncated=result.truncated)
        output.data.update(result.data)
        output.code_readings.extend(await asyncio.to_thread(self.readings.of, result.fragments))
        return output


def code_tools(commits: Commits, fetching: Fetching, searching: Searching, readings: Readings) -> list[CodeTool]:
    """Returns all tools."""
    return [
        CodeTool(
            FETCH_CODE,
            "Fetches code: a whole file (path), the code around a line (path and first_line, or path as app.py:42), or "
            "the definition of a function, class or variable with the places in its file that call it (symbol; with "
            "path, only there). Lines come numbered.",
            FetchCode,
            fetching.fetch_code,
            commits,
            readings,
        ),
        CodeTool(
            READ_FILE,
            "Reads a file or a range of its lines. Lines come numbered.",
            ReadFile,
            fetching.read_file,
            commits,
            readings,
        ),
        CodeTool(
            SEARCH_CODEBASE,
            "Searches all files for a text or, with regex, a regular expression; gives matching lines with some lines "
            "around them.",
            SearchCodebase,
            searching.search_codebase,
            commits,
            readings,
        ),
        CodeTool(
            LIST_DIRECTORY,
            "Lists files and folders, with sizes.",
            ListDirectory,
            searching.list_directory,
            commits,
            readings,
        ),
        CodeTool(
            FIND_FILE,
            "Finds files by name, part of a path, or glob such as *_test.go.",
            FindFile,
            searching.find_file,
            commits,
            readings,
        ),
    ]
