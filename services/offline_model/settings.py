"""Settings of the offline model."""

from __future__ import annotations

from pydantic import Field

from services.kit.settings import OptionalFile, ServiceSettings


class OfflineModelSettings(ServiceSettings):
    """Everything the offline model server can be told from outside."""

    max_request_bytes: int = Field(
        4 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="Largest request body accepted, in bytes."
    )
    vocabulary_file: OptionalFile = Field(
        None,
        description="YAML: what words mean in the database, graph and measurements that are asked about, as in "
        "`examples/harbour/vocabulary.yaml`. Unset: what is in prompts, and no more.",
    )
