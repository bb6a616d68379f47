"""What kinds of events a run has: the words of `run_events.kind`, and of the event's `oneof` in the proto."""

from typing import Final

from signalbox.v1 import runs_pb2

STATE_CHANGED: Final = "state_changed"
DECISION: Final = "decision"
NODE_COMPLETED: Final = "node_completed"
RUN_ENDED: Final = "run_ended"
# Neither numbered nor stored.
TOKEN_CHUNK: Final = "token_chunk"  # noqa: S105 - what a model says
TOKENS_RESET: Final = "tokens_reset"

# The states in which a run has ended.
ENDED_RUN_STATES: Final = frozenset(
    {
        runs_pb2.RUN_STATE_SUCCEEDED,
        runs_pb2.RUN_STATE_FAILED,
        runs_pb2.RUN_STATE_CANCELLED,
        runs_pb2.RUN_STATE_NEEDS_REVIEW,
    }
)
