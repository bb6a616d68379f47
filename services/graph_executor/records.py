"""What is kept of calls beside the nodes of callers, in whichever graph database: how it is written and read.

Records are nodes without edges, under labels that no policy can name: whatever begins at a label of the policy never
comes to them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any, Final

from signalbox.v1 import tools_pb2

from services.graph_executor.elements import Change
from services.graph_executor.store import KeptChange, Record
from services.kit.tools.effects import Kept, Seen, WriteCall

RESULT_LABEL: Final = "__signalbox_result"
RUN_LABEL: Final = "__signalbox_run"
# Of the one node that each transaction writes first, where one query is not enough for a change.
TURN_LABEL: Final = "__signalbox_turn"

LOOK_UP: Final = (
    f"OPTIONAL MATCH (kept:{RESULT_LABEL} {{key: $key}}) "
    "WITH collect([kept.fingerprint, kept.response, kept.complete]) AS kept "
    f"OPTIONAL MATCH (run:{RUN_LABEL} {{key: $run}}) RETURN kept, run.epoch"
)
FENCE_RUN: Final = (
    f"MERGE (run:{RUN_LABEL} {{key: $run}}) "
    "SET run.epoch = CASE WHEN coalesce(run.epoch, 0) < $epoch THEN $epoch ELSE run.epoch END, "
    "run.calls = coalesce(run.calls, 0)"
)
CHANGES: Final = (
    f"MATCH (kept:{RESULT_LABEL} {{run: $run}}) WHERE kept.change <> '' "
    "RETURN kept.key, kept.operation, kept.number, kept.tool, kept.subject, kept.change, kept.opaque, kept.undone, "
    "kept.turns ORDER BY kept.number"
)
COMPLETE: Final = (
    f"MATCH (kept:{RESULT_LABEL} {{key: $key}}) WHERE kept.complete = false "
    "SET kept.response = $response, kept.complete = true"
)
FREEZE: Final = f"MATCH (kept:{RESULT_LABEL} {{key: $key}}) SET kept.complete = true"


def look_up_parameters(call: WriteCall) -> dict[str, Any]:
    """Returns the parameters of LOOK_UP."""
    return {"key": call_key(call), "run": run_key(call)}


def fence_parameters(call: WriteCall) -> dict[str, Any]:
    """Returns the parameters of FENCE_RUN."""
    return {"run": run_key(call), "epoch": call.epoch}


def complete_parameters(call: WriteCall, response: tools_pb2.CallToolResponse) -> dict[str, Any]:
    """Returns the parameters of COMPLETE."""
    return {"key": call_key(call), "response": _text(response)}


def read_look_up(rows: Sequence[Sequence[Any]]) -> tuple[Seen, bool]:
    """Returns what the one row of LOOK_UP says, and whether it is final: a result that nobody was told may change."""
    [[found, epoch]] = rows
    kept = [(Kept(mark, _response(text)), complete) for mark, text, complete in found if mark is not None]
    return (Seen(epoch or 0, kept[0][0]), kept[0][1]) if kept else (Seen(epoch or 0, None), True)


def read_change(row: Sequence[Any]) -> KeptChange:
    """Returns what a row of CHANGES says."""
    key, operation, number, tool, subject, text, opaque, undone, turns = row
    change = Change.from_data(json.loads(text))
    return KeptChange(key, operation, number, tool, subject, change, opaque, undone, tuple(turns))


def kept_properties(record: Record) -> dict[str, Any]:
    """Returns what is kept of a call besides its key and its number."""
    call = record.call
    return {
        "run": call.run_id,
        "operation": call.operation_id,
        "fingerprint": call.fingerprint,
        "response": _text(record.response),
        "tool": call.tool,
        "subject": call.caller.subject,
        "at": int(time.time()),
        "change": json.dumps(record.change.to_data()) if record.change or record.opaque else "",
        "opaque": record.opaque,
        "refused": record.response.HasField("error"),
        "complete": not record.opaque,
        "undone": False,
        "turns": list(record.turns),
    }


def turned(turns: Sequence[str]) -> list[dict[str, Any]]:
    """Returns each record that a record turns: what the first did is undone, what that had undone is not, and so on."""
    return [{"key": key, "undone": number % 2 == 0} for number, key in enumerate(turns)]


def call_key(call: WriteCall) -> str:
    """Returns what a call is kept under."""
    return _digest([call.run_id, call.operation_id])


def run_key(call: WriteCall) -> str:
    """Returns what is known of a call's run is kept under."""
    return _digest([call.run_id])


def _digest(names: list[str]) -> str:
    # Of a run or an operation, whose ids may be any text: what is unique must not be.
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _text(response: tools_pb2.CallToolResponse) -> str:
    return base64.b64encode(response.SerializeToString()).decode("ascii")


def _response(text: str) -> tools_pb2.CallToolResponse:
    return tools_pb2.CallToolResponse.FromString(base64.b64decode(text))
