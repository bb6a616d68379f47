"""When a stream has said what it was opened for, so that whoever leaves then has not broken it off."""

from __future__ import annotations

from signalbox.v1 import runs_pb2

from services.kit.wire.event_kinds import RUN_ENDED


def says_it_all(response: object) -> bool:
    """Whether nothing need follow a message of a stream: a run has ended, or waits for a person."""
    event = getattr(response, "event", None)
    if not isinstance(event, runs_pb2.RunEvent):
        return False
    return event.HasField(RUN_ENDED) or event.state_changed.state == runs_pb2.RUN_STATE_AWAITING_INPUT
