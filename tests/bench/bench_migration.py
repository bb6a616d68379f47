"""How long a migration keeps the last release's writers waiting, on a full platform database.

Writers take steps of runs by the last release's own statement, before and while this release's migrations apply.
SIGNALBOX_BENCH_DECISIONS says how many decisions, and as many events, there are: 10,000,000 unless set.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from rich.console import Console
from rich.table import Table

from services.kit.telemetry.logs import configure_logs
from services.local.postgres import EmbeddedPostgres
from services.runtime.commands.migrate import migrate
from tests.fixtures.filled import fill, migrate_as
from tests.fixtures.release import last_release

DEFAULT_DECISIONS = 10_000_000
WRITERS = 4
BEFORE_S = 10.0
PAUSE_S = 0.005
SETTINGS = {"max_wal_size": "8GB", "shared_buffers": "1GB", "checkpoint_timeout": "1h"}
STEP = Path("services", "runtime", "engine", "sql", "put_step.sql")
_CLAIM = """
    UPDATE runs SET state = 'RUNNING', epoch = 1, owner = 'bench', lease_expires_at = now() + interval '1 day'
    WHERE run_id = (SELECT run_id FROM runs WHERE state = 'AWAITING_INPUT' ORDER BY created_at OFFSET %s LIMIT 1)
    RETURNING run_id::text
"""
_DECISION = """[{"n": 1, "decision_id": "d", "router": "r", "rule": "x", "destination": "y", "rejected_rules": [],
    "grounds": {}, "facts": {}, "policy_version": "v", "trace_id": "t", "span_id": "s", "node": "n",
    "node_elapsed_ms": 1.0, "calls": []}]"""
_SPEND = ("model_calls", "tool_calls", "input_tokens", "output_tokens", "wall_time_s")
_WRITES = {"task_id": "task", "idx": 0, "task_path": "", "writes": b"x"}
_GIVEN = {
    **dict.fromkeys(_SPEND, 1),
    **_WRITES,
    "epoch": 1,
    "event_count": 1,
    "decision_count": 1,
    "checkpoint_ns": "",
    "body": b"x",
    "changes": b"x",
    "metadata": "{}",
    "decisions": _DECISION,
    "events": '[{"n": 1, "kind": "decision", "decision": 1, "payload": null}]',
}


@dataclass
class Writers:
    """Steps that are taken, and how long each took."""

    dsn: str
    step: str
    waits_s: list[float] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _failed: list[BaseException] = field(default_factory=list)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Writes inside the context. Raises what a writer met."""
        threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()
        if self._failed:
            raise self._failed[0]

    def take(self) -> list[float]:
        """Returns the steps since the last time."""
        taken, self.waits_s = self.waits_s, []
        return taken

    def _write(self, number: int) -> None:
        try:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                [[run_id]] = connection.execute(_CLAIM, [number]).fetchall()
                for step in itertools.count():
                    if self._stopping.is_set():
                        return
                    ids = {"checkpoint_id": f"{step:09}", "parent_checkpoint_id": f"{step - 1:09}"}
                    began = time.perf_counter()
                    connection.execute(self.step.encode(), {**_GIVEN, **ids, "run_id": run_id, "thread_id": run_id})
                    self.waits_s.append(time.perf_counter() - began)
                    time.sleep(PAUSE_S)
        except psycopg.Error as error:
            self._failed.append(error)


def main() -> None:
    """Measures, and prints the longest waits."""
    configure_logs("bench", "ERROR")
    decisions = int(os.environ.get("SIGNALBOX_BENCH_DECISIONS", DEFAULT_DECISIONS))
    console = Console(file=sys.stdout, width=100)
    with TemporaryDirectory() as folder, EmbeddedPostgres(settings=SETTINGS) as postgres:
        dsn = postgres.dsn()
        release = last_release(Path(folder))
        migrate_as(release, dsn)
        fill(dsn, decisions=decisions)
        writers = Writers(dsn, (release.folder / STEP).read_text())
        with writers.writing():
            time.sleep(BEFORE_S)
            before = writers.take()
            began = time.perf_counter()
            applied = migrate(dsn)
            took_s = time.perf_counter() - began
            meanwhile = writers.take()
    table = Table(title=f"{len(applied)} migrations on {decisions:,} decisions and events, {took_s:.1f} s")
    for heading in ("steps of the last release", "number", "median ms", "longest ms"):
        table.add_column(heading, justify="right" if heading != "steps of the last release" else "left")
    for name, waits in (("before", before), ("meanwhile", meanwhile)):
        middle = sorted(waits)[len(waits) // 2]
        table.add_row(name, f"{len(waits):,}", f"{middle * 1000:.1f}", f"{max(waits) * 1000:.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
