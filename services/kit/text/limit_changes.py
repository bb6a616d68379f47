"""Changes of agents' limits in words, as commands and pages say them."""

from __future__ import annotations

from collections.abc import Mapping

from signalbox.v1 import maintenance_pb2

from services.kit.text.printing import printable
from services.kit.text.words import limit_text

_SOURCES: Mapping[int, str] = {
    maintenance_pb2.LIMIT_SOURCE_RELEASE: "built in",
    maintenance_pb2.LIMIT_SOURCE_FILE: "policy file",
    maintenance_pb2.LIMIT_SOURCE_SETTING: "the deployment's settings",
    maintenance_pb2.LIMIT_SOURCE_TABLE: "table in the graph's code",
    maintenance_pb2.LIMIT_SOURCE_CODE: "the graph's code",
}


def values_of(limit: maintenance_pb2.ChangedLimit) -> str:
    """What a limit was and what it became, as `5 → 3`."""
    old = limit_text(limit.old_value) if limit.HasField("old_value") else "not there"
    new = limit_text(limit.new_value) if limit.HasField("new_value") else "not there"
    return f"{old} → {new}"


def source_of(limit: maintenance_pb2.ChangedLimit) -> str:
    """Where the value of a limit comes from; empty of one that is there no more."""
    return _SOURCES.get(limit.source, "unknown") if limit.HasField("new_value") else ""


def author_of(change: maintenance_pb2.LimitChange) -> str:
    """Who has made a change, as far as the deployment says."""
    return printable(change.changed_by) or "unknown: the deployment does not say"


def release_of(change: maintenance_pb2.LimitChange) -> str:
    """With which release, and which revision of the deployment."""
    revision = f"revision {change.revision}" if change.revision else "revision unknown"
    return f"{printable(change.release)}, {revision}"


def reason_of(change: maintenance_pb2.LimitChange) -> str:
    """Why, as far as the deployment says."""
    return printable(change.reason) or "unknown: the deployment does not say"
