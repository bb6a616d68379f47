"""A run with all that is told of why it went as it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from signalbox.v1 import runs_pb2, threads_pb2


@dataclass(frozen=True)
class Explained:
    """A run, its decisions, these in words by sequence, and its story.

    `traffic` is that of other runs, by edge; `states` are what steps left, by their checkpoints' ids.
    """

    run: runs_pb2.Run
    decisions: Sequence[runs_pb2.Decision]
    told: Mapping[int, runs_pb2.DecisionExplanation]
    story: runs_pb2.RunExplanation
    traffic: Mapping[tuple[str, str], int] = field(default_factory=dict)
    states: Mapping[str, threads_pb2.ThreadState] = field(default_factory=dict)
