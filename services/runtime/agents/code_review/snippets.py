"""Whether the code that a finding quotes is the code at the commit, where whoever asked could not read it."""

from __future__ import annotations

from signalbox.v1 import sast_pb2

from services.kit.text.quotes import is_quoted, squeezed
from services.kit.tools.names import FETCH_CODE
from services.runtime.agents.code_review.code_tools import CodeTools, Source
from services.runtime.agents.code_review.finding import last_line
from services.runtime.routing.run_context import NodeContext

SHOWN = 80
# How the code executor ends a line that it has cut.
_CUT = "…"
# Refusals that say that nothing is there: what is quoted can't be either.
_NOT_THERE = ("path_not_found", "line_not_found")


async def checked_finding(
    code: CodeTools, context: NodeContext, source: Source, finding: sast_pb2.Finding
) -> sast_pb2.Finding:
    """Returns a finding without a snippet that the commit contradicts, and with a note of that.

    Raises what `CodeTools.call` does.
    """
    quoted = squeezed(finding.snippet)
    if not finding.check_snippet or not quoted:
        return finding
    place = finding.location
    last = max(last_line(place), place.first_line + finding.snippet.count("\n"))
    arguments = {"path": place.file, "first_line": place.first_line, "last_line": last, "context_lines": 0}
    found = await code.call(context, source, FETCH_CODE, arguments, "check-snippet")
    lines = [line for fragment in found.fragments for line in fragment["content"].split("\n")]
    there = "\n".join(lines)
    unknown = bool(found.error) and not found.error.startswith(tuple(f"error: {reason}" for reason in _NOT_THERE))
    if is_quoted(finding.snippet, there) or unknown or any(line.endswith(_CUT) for line in lines):
        return finding
    shown = squeezed(there)[:SHOWN] or "nothing"
    kept = sast_pb2.Finding()
    kept.CopyFrom(finding)
    kept.ClearField("snippet")
    kept.ClearField("check_snippet")
    kept.notes.append(
        f"the snippet {quoted[:SHOWN]!r} is not what stands at {place.file}:{place.first_line}, which is {shown!r}: "
        "the finding was looked at without it"
    )
    return kept
