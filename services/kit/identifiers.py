"""Ids that sort by the time they were made."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime


def uuid7() -> str:
    """Returns a UUID version 7 (RFC 9562): ids sort by the time they were made, which keeps indexes compact."""
    return _uuid7(datetime.now(UTC), uuid.uuid4().int)


def uuid7_floor(moment: datetime) -> str:
    """Returns an id that no id made after the moment is less than."""
    return _uuid7(moment, 0)


def _uuid7(moment: datetime, random: int) -> str:
    value = (int(moment.timestamp() * 1000) << 80) | (random & ((1 << 80) - 1))
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return str(uuid.UUID(int=value))
