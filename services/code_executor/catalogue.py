"""The tools: names, words for the model, arguments, and what does the work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import struct_pb2

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
from services.code_executor.results import Result
from services.code_executor.searching import Searching
from services.code_executor.snapshots import Snapshot, Snapshots
from services.code_executor.sources import SourcePolicy

# A method of Fetching or Searching, whose arguments are of its tool's model.
Work = Callable[[Snapshot, Any], Awaitable[Result]]


@dataclass(frozen=True)
class CodeTool:
    """A tool."""

    name: str
    description: str
    arguments: type[ToolArguments]
    work: Work

    def input_schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of its arguments."""
        return input_schema(self.arguments)


class Catalogue:
    """All tools, and how one is called."""

    def __init__(self, policy: SourcePolicy, snapshots: Snapshots, fetching: Fetching, searching: Searching) -> None:
        self._policy = policy
        self._snapshots = snapshots
        self.tools: Mapping[str, CodeTool] = {tool.name: tool for tool in _tools(fetching, searching)}

    async def call(self, name: str, arguments: struct_pb2.Struct) -> Result:
        """Calls a tool on the commit that its arguments name. Raises ToolRefused."""
        tool = self.tools[name]
        checked = read_arguments(tool.arguments, arguments)
        source = await self._policy.admit(checked.source.repository)
        async with self._snapshots.use(source, checked.source.commit) as snapshot:
            return await tool.work(snapshot, checked)


def _tools(fetching: Fetching, searching: Searching) -> list[CodeTool]:
    return [
        CodeTool(
            "fetch_code",
            "Fetches code: a whole file (path), the code around a line (path and first_line, or path as app.py:42), or "
            "the definition of a function, class or variable with the places in its file that call it (symbol; with "
            "path, only there). Lines come numbered.",
            FetchCode,
            fetching.fetch_code,
        ),
        CodeTool(
            "read_file", "Reads a file or a range of its lines. Lines come numbered.", ReadFile, fetching.read_file
        ),
        CodeTool(
            "search_codebase",
            "Searches all files for a text or, with regex, a regular expression; gives matching lines with some lines "
            "around them.",
            SearchCodebase,
            searching.search_codebase,
        ),
        CodeTool("list_directory", "Lists files and folders, with sizes.", ListDirectory, searching.list_directory),
        CodeTool(
            "find_file",
            "Finds files by name, part of a path, or glob such as *_test.go.",
            FindFile,
            searching.find_file,
        ),
    ]
