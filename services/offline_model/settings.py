"""Settings of the offline model."""

from __future__ import annotations

from pydantic import Field

from services.kit.settings import ServiceSettings


class OfflineModelSettings(ServiceSettings):
    """Everything the offline model server can be told from outside."""

    max_request_bytes: int = Field(
        4 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="Largest request body accepted, in bytes."
    )
