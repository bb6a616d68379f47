"""Tools as somebody has accepted them: what agents are told, and what a server's own words are held against."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import mcp.types as mcp_types
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from services.kit.text.problems import problems_of


class AcceptedFileError(Exception):
    """The file of accepted tools can't be read; the message says why."""


class Definition(BaseModel):
    """What a server says of a tool, all of it that says what it does or takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str | None = None
    description: str | None = None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    # Where its server takes calls as tasks of MCP alone.
    task_support: Literal["required"] | None = None

    @classmethod
    def of(cls, tool: mcp_types.Tool) -> Definition:
        """Returns what a server says of a tool now."""
        annotations = tool.annotations.model_dump(exclude_none=True) if tool.annotations else None
        return cls(
            title=tool.title,
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            annotations=annotations or None,
            task_support="required" if tool.execution and tool.execution.task_support == "required" else None,
        )

    @property
    def digest(self) -> str:
        """A digest of all of it."""
        text = json.dumps(self.model_dump(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def says_it_reads(self) -> bool:
        """Whether the server says that it changes nothing; a server may lie, and whoever accepts it believes it."""
        return bool((self.annotations or {}).get("read_only_hint"))


# By server and tool.
Accepted = dict[str, dict[str, Definition]]
_FILE = TypeAdapter(Accepted)


def read_accepted(path: Path) -> Accepted:
    """Returns what is accepted; nothing where the file does not exist yet. Raises AcceptedFileError."""
    try:
        return _FILE.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise AcceptedFileError(f"{path}: can't be read: {error}") from error
    except ValidationError as error:
        raise AcceptedFileError("\n".join(f"{path}: {problem}" for problem in problems_of(error))) from error


def written(accepted: Accepted) -> str:
    """Returns what the file of accepted tools says; the same for the same tools."""
    plain = {
        server: {name: definition.model_dump(exclude_none=True) for name, definition in sorted(tools.items())}
        for server, tools in sorted(accepted.items())
    }
    return json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
