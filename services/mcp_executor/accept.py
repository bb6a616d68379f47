"""`signalbox mcp-tools`: what MCP servers say of the tools that are allowed, beside what somebody has accepted of them.

Exit status: 0 when all allowed tools are (now) accepted as they are, 1 when not, 2 when the input is wrong or a server
can't be asked.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from services.kit.errors import SignalboxError
from services.kit.text.policy_file import PolicyFileError, load_policy_file
from services.kit.text.printing import printable
from services.mcp_executor.accepted import Accepted, AcceptedFileError, Definition, read_accepted, written
from services.mcp_executor.connection import Listed
from services.mcp_executor.offer import problem_of
from services.mcp_executor.schemas import ResultChecks
from services.mcp_executor.servers import AllowedTool, McpServer, McpServers
from services.mcp_executor.settings import McpExecutorSettings, accepted_beside
from services.mcp_executor.tool_server import ToolServer

OK, NOT_ACCEPTED, WRONG_INPUT = 0, 1, 2
# A program may fetch itself first, and no run waits for it here.
CONNECT_TIMEOUT_S = 60.0


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return asyncio.run(_run(options))
    except (PolicyFileError, AcceptedFileError, OSError) as error:
        _say(f"error: {error}")
    except SignalboxError as error:
        _say(f"error: {error.message}")
    return WRONG_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mcp-tools", description="Show what MCP servers say of the tools that agents may call, and accept it."
    )
    parser.add_argument("servers", type=Path, metavar="FILE", help="file of servers (YAML)")
    parser.add_argument("--accepted", type=Path, metavar="FILE", help="file of accepted tools (JSON)")
    parser.add_argument("--accept", action="store_true", help="accept all that is shown")
    parser.add_argument("--server", action="append", metavar="NAME", help="only this server; repeatable")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="a caller's token, for servers that take no other"
    )
    return parser


async def _run(options: argparse.Namespace) -> int:
    servers = load_policy_file(options.servers, McpServers).servers
    place = options.accepted or accepted_beside(options.servers)
    accepted = read_accepted(place)
    if unknown := set(options.server or ()) - servers.keys():
        raise PolicyFileError(f"{options.servers}: there is no server {', '.join(sorted(unknown))}")
    chosen = {name: each for name, each in servers.items() if not options.server or name in options.server}
    # What a file of no server says is not kept.
    kept: Accepted = {name: dict(tools) for name, tools in accepted.items() if name in servers}
    differs = kept.keys() != accepted.keys()
    for name, server in chosen.items():
        listed = await _asked(name, server, options.token_file)
        found, before = listed.tools, accepted.get(name, {})
        now = {tool: found[tool] for tool in server.tools if tool in found}
        for line in _lines(name, server, before, listed):
            _say(line)
        problems = [tool for tool, each in now.items() if problem_of(each, server.tools[tool])]
        missing = [tool for tool in server.tools if tool not in found]
        kept[name] = {tool: each for tool, each in now.items() if tool not in problems}
        differs |= bool(problems or missing) or kept[name] != dict(before)
    if not options.accept:
        return NOT_ACCEPTED if differs else OK
    text = written(kept)
    place.write_text(text, encoding="utf-8")
    left = [f"{name}.{tool}" for name, each in chosen.items() for tool in each.tools if tool not in kept[name]]
    _say(f"written to {place}" + (f"; not accepted: {printable(', '.join(left))}" if left else ""))
    return NOT_ACCEPTED if left else OK


async def _asked(name: str, server: McpServer, token_file: Path | None) -> Listed:
    if server.token_exchange:
        if token_file is None:
            raise PolicyFileError(f"the server {name} is asked on behalf of callers: give one's token by --token-file")
        server = server.model_copy(update={"token_file": token_file, "token_exchange": None})
    settings = McpExecutorSettings.model_construct(
        **{key: each.default for key, each in McpExecutorSettings.model_fields.items() if not each.is_required()}
        | {"mcp_connect_timeout_s": CONNECT_TIMEOUT_S}
    )
    there = ToolServer(name, server, {}, settings, ResultChecks())
    try:
        return await there.listed()
    finally:
        await there.aclose()


def _lines(name: str, server: McpServer, accepted: Mapping[str, Definition], listed: Listed) -> Iterator[str]:
    """Says of each allowed tool how it is: accepted, new, changed, gone, or not to be offered."""
    for tool, allowed in server.tools.items():
        place, found = printable(f"{name}.{tool}"), listed.tools.get(tool)
        if why := listed.invalid.get(tool):
            yield printable(f"{place}: can't be offered: it is no tool of MCP: {why}")
        elif found is None:
            yield f"{place}: gone; the server has no such tool"
        else:
            yield from _told(place, allowed, accepted.get(tool), found)
    for tool in sorted((listed.tools.keys() | listed.invalid.keys()) - server.tools.keys()):
        yield f"{printable(f'{name}.{tool}')}: not allowed; it is not in the file"


def _told(place: str, allowed: AllowedTool, accepted: Definition | None, found: Definition) -> Iterator[str]:
    does = allowed.effect or ("reads" if found.says_it_reads else "unknown")
    if problem := problem_of(found, allowed):
        yield f"{place}: can't be offered: {problem}"
    elif accepted is None:
        yield f"{place}: new, {does}"
        yield from (f"  {line}" for line in _shown(found))
    elif accepted.digest == found.digest:
        yield f"{place}: accepted, {does}"
    else:
        yield f"{place}: changed, {does}"
        yield from (f"  {line}" for line in difflib.unified_diff(_shown(accepted), _shown(found), lineterm="", n=1))


def _shown(definition: Definition) -> list[str]:
    text = json.dumps(definition.model_dump(exclude_none=True), indent=2, ensure_ascii=False)
    return [printable(line) for line in text.splitlines()]


def _say(line: str) -> None:
    print(line)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
