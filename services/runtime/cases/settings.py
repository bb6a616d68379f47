"""Settings of a replay of a case."""

from __future__ import annotations

from services.runtime.settings import CallSettings, FolderSettings


class CaseSettings(CallSettings, FolderSettings):
    """What a case is replayed with: models, where it is to go on with one; no services."""
