"""What a client of MCP is told of a run: while it goes on, at its end, and why it went so."""

from __future__ import annotations

import json
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from mcp.types import CallToolResult, TextContent
from signalbox.v1 import runs_pb2

from services.kit.text.printing import printable
from services.kit.text.words import grounds, state_name
from services.kit.wire.event_kinds import DECISION, NODE_COMPLETED, STATE_CHANGED

LONGEST_RESULT: Final = 200_000
_FIELDS: Final = ("run_id", "state", "outcome", "stop_reason", "error", "output", "input_request")


def progress(event: runs_pb2.RunEvent) -> str:
    """Returns an event in words, as whoever waits is told of it; nothing of one that says nothing."""
    if event.HasField(DECISION):
        decision = event.decision
        return printable(f"{decision.node}: {decision.router} → {decision.destination}, by {decision.rule}")
    if event.HasField(NODE_COMPLETED):
        return printable(event.node_completed.node)
    return state_name(event.state_changed.state) if event.HasField(STATE_CHANGED) else ""


def told_of(run: runs_pb2.Run) -> dict[str, Any]:
    """Returns what a run came to, or what it asks."""
    said = MessageToDict(run, preserving_proto_field_name=True)
    return {name: said[name] for name in _FIELDS if name in said}


def decided(decision: runs_pb2.Decision, words: runs_pb2.DecisionExplanation) -> dict[str, Any]:
    """Returns a decision, with the rules that were missed before, and by how much."""
    told = {each.rule: each for each in words.rules}

    def rule(name: str, read: Struct) -> dict[str, str]:
        said = {"rule": name, "read": grounds(read)}
        if name in told:
            said |= {"condition": told[name].condition, "missed_by": told[name].missed_by}
        return {key: value for key, value in said.items() if value}

    code = MessageToDict(decision.code, preserving_proto_field_name=True)
    return {
        "node": decision.node,
        "router": decision.router,
        "destination": decision.destination,
        "held": rule(decision.rule, decision.grounds),
        "missed": [rule(each.rule, each.grounds) for each in decision.rejected_rules],
        **({"code": code} if code else {}),
        "calls": [_call(each) for each in decision.calls],
    }


def _call(call: runs_pb2.NodeCall) -> str:
    return f"{call.kind} {call.name}: {call.outcome}{', at least once' * call.at_least_once}"


def result_of(found: dict[str, Any]) -> CallToolResult:
    """Returns what was found as a tool's result, cut where it is too long."""
    text = json.dumps(found, ensure_ascii=False)
    if len(text) <= LONGEST_RESULT:
        return CallToolResult(content=[TextContent(text=text)], structured_content=found)
    cut = f"{text[:LONGEST_RESULT]}\n[cut: {len(text) - LONGEST_RESULT:,} characters more; `signalbox show` has all]"
    return CallToolResult(content=[TextContent(text=cut)])
