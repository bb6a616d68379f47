"""Settings of a replay of a case."""

from __future__ import annotations

from pydantic import Field

from services.runtime.settings import CallSettings


class CaseSettings(CallSettings):
    """What a case is replayed with: models, where it is to go on with one; no services."""

    guard_target: str = Field("", description="Not asked.")
    sql_executor_target: str = Field("", description="Not asked.")
    model_base_url: str = Field("", description="OpenAI-compatible endpoint of the models that --continue asks.")
    agent_model: str = Field("", description="Model that agents think with.")
    format_model: str = Field("", description="Model that writes answers.")
