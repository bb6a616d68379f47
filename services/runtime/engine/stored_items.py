"""What hosted graphs keep beyond a run, as statements take it: whose it is, and what a step writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg import AsyncConnection

from services.runtime.engine.queries import query
from services.runtime.engine.records import RunRecord
from services.runtime.engine.store_policy import Scope, StorePolicy
from services.runtime.routing.recorder import ItemWrite

# From a list in JSON to an array as Postgres reads it.
_AS_ARRAY = str.maketrans("[]", "{}")


@dataclass(frozen=True)
class StoreScope:
    """Whose store a run has, by the claims that it was created with."""

    scope: Scope
    owner: str
    thread_id: str
    subject: str
    policy: StorePolicy

    @classmethod
    def of(cls, run: RunRecord, policy: StorePolicy) -> StoreScope:
        """Returns the store of a run. One of no thread has, where threads have one each, one that is its own."""
        owner = run.agent if policy.scope == "agent" else run.caller.subject
        thread_id = (run.thread_id or run.run_id) if policy.scope == "thread" else ""
        return cls(policy.scope, owner, thread_id, run.caller.subject, policy)

    @property
    def parameters(self) -> dict[str, Any]:
        """As statements get it."""
        return {"scope": self.scope, "owner": self.owner, "thread_id": self.thread_id, "subject": self.subject}


def last_writes(writes: Iterable[ItemWrite]) -> dict[tuple[str, str], ItemWrite]:
    """Returns the last write of each item, by namespace and key, in the order in which they were made."""
    last: dict[tuple[str, str], ItemWrite] = {}
    for write in sorted((each for each in writes if not each["refresh"]), key=lambda each: each["number"]):
        last.pop((write["namespace"], write["key"]), None)
        last[write["namespace"], write["key"]] = write
    return last


async def put_items(connection: AsyncConnection[Any], scope: StoreScope, writes: list[ItemWrite]) -> None:
    """Writes what a step keeps, in the transaction of that step."""
    last = last_writes(writes)
    read = {(each["namespace"], each["key"]): each for each in writes if each["refresh"]}
    if last:
        parameters = {**scope.parameters, **_columns(scope, last)}
        await connection.execute(query("put_store"), parameters)
    vectors = [(place, each) for place, each in last.items() if each.get("vectors")]
    for embed in {each["embed"] for _, each in vectors}:
        rows = [
            (*place, name, orjson.dumps(numbers).decode().translate(_AS_ARRAY))
            for place, each in vectors
            if each["embed"] == embed
            for name, numbers in each["vectors"].items()
        ]
        columns = zip(("namespaces", "keys", "fields", "embeddings"), zip(*rows, strict=True), strict=True)
        given = {name: list(column) for name, column in columns}
        await connection.execute(query("put_vectors"), {**scope.parameters, "embed": embed, **given})
    if refreshed := {place: each for place, each in read.items() if place not in last}:
        parameters = {**scope.parameters, **_columns(scope, refreshed)}
        await connection.execute(query("refresh_store"), parameters)


def _columns(scope: StoreScope, writes: Mapping[tuple[str, str], ItemWrite]) -> dict[str, list[Any]]:
    return {
        "namespaces": [namespace for namespace, _ in writes],
        "keys": [key for _, key in writes],
        "values": [each["value"] for each in writes.values()],
        "ttls_s": [each["ttl_s"] for each in writes.values()],
        "lasts_s": [scope.policy.lasts_s(each["ttl_s"]) for each in writes.values()],
    }
