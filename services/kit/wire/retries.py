"""Which calls are made again when nobody answered, and how often: gRPC's own retries, as a service config has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# Methods that only read, and those the server makes idempotent by a key: a repeat is safe when the server went away.
SAFE_TO_RETRY: tuple[tuple[str, str], ...] = (
    ("signalbox.v1.RunService", "GetRun"),
    ("signalbox.v1.RunService", "ListRuns"),
    ("signalbox.v1.RunService", "ListDecisions"),
    ("signalbox.v1.RunService", "CountDecisions"),
    ("signalbox.v1.RunService", "CountRuns"),
    ("signalbox.v1.RunService", "ExplainRun"),
    ("signalbox.v1.RunService", "ListRecordedAnswers"),
    ("signalbox.v1.RunService", "CancelRun"),
    ("signalbox.v1.BatchService", "AddBatchItems"),
    ("signalbox.v1.BatchService", "StartBatch"),
    ("signalbox.v1.BatchService", "GetBatch"),
    ("signalbox.v1.BatchService", "ListBatches"),
    ("signalbox.v1.BatchService", "WatchBatch"),
    ("signalbox.v1.BatchService", "CancelBatch"),
    ("signalbox.v1.BatchService", "ExportBatch"),
    ("signalbox.v1.AgentService", "ListAgents"),
    ("signalbox.v1.ThreadService", "ListThreads"),
    ("signalbox.v1.ThreadService", "GetThread"),
    ("signalbox.v1.ThreadService", "GetThreadState"),
    ("signalbox.v1.ThreadService", "GetRunState"),
    ("signalbox.v1.ThreadService", "ListRunStates"),
    ("signalbox.v1.StoreService", "GetItem"),
    ("signalbox.v1.StoreService", "SearchItems"),
    ("signalbox.v1.StoreService", "ListNamespaces"),
    ("signalbox.v1.QuestionService", "ListQuestions"),
    ("signalbox.v1.QuestionService", "GetQuestion"),
    ("signalbox.v1.MaintenanceService", "Prune"),
    ("signalbox.v1.MaintenanceService", "EraseStore"),
    ("signalbox.v1.MaintenanceService", "ReplayDecisions"),
    ("signalbox.v1.MaintenanceService", "VerifyDecisions"),
    ("signalbox.v1.MaintenanceService", "ListLimitChanges"),
    ("signalbox.v1.GuardService", "Screen"),
    ("signalbox.v1.EvaluatorService", "EvaluateInvestigation"),
    ("signalbox.v1.EvaluatorService", "CritiqueVerdict"),
    ("signalbox.v1.ToolExecutorService", "ListTools"),
    ("signalbox.v1.ToolExecutorService", "CallTool"),
)


def repeated(methods: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Returns the method config by which calls of these methods are repeated, streams until their first message."""
    return {
        "name": [{"service": service, "method": method} for service, method in methods],
        "retryPolicy": {
            "maxAttempts": 4,
            "initialBackoff": "0.1s",
            "maxBackoff": "1s",
            "backoffMultiplier": 2,
            # CANCELLED is what a server that has begun to stop says to calls that still arrive.
            "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
        },
    }
