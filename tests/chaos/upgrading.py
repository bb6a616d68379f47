"""The last release's services, and this one's in their place for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from services.local.database import WORLD_POLICY
from services.local.processes import Program, ServiceProcess, run_to_end
from services.local.settings import inherited_environment
from tests.chaos.deployment import replaced
from tests.fixtures.release import ROOT, Release

MIGRATION_TIMEOUT_S = 240.0


def in_its_world(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has platforms that are started migrate as a release does, and ask about the world that it knew."""
    monkeypatch.setattr("services.local.database.MIGRATION", release.migration)
    policy = release.folder / WORLD_POLICY.relative_to(ROOT)
    for module in ("database", "stack"):
        monkeypatch.setattr(f"services.local.{module}.WORLD_POLICY", policy)


@asynccontextmanager
async def upgraded(service: ServiceProcess, directory: Path, **more_env: str) -> AsyncIterator[ServiceProcess]:
    """Puts this release's program in the place of the last one's, for a while."""
    env = {name: value for name, value in service.program.env.items() if name != "PYTHONPATH"} | more_env
    program = replace(service.program, name=f"{service.name}-new", env=env)
    async with replaced(service, program, directory) as other:
        yield other


async def migrate(dsn: str, directory: Path) -> None:
    """Applies this release's migrations, as its Job does."""
    env = {**inherited_environment(), "SIGNALBOX_DATABASE_DSN": dsn}
    program = Program("migrate-new", ["-P", "-m", "services.runtime.commands.migrate"], env)
    await run_to_end(program, directory, timeout_s=MIGRATION_TIMEOUT_S)
