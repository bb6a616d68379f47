"""Work that a replica does again and again: a loop that ended would leave one that looks well and does nothing."""

from __future__ import annotations

from collections.abc import Awaitable

import psycopg

from services.kit.logs import get_logger
from services.runtime.errors import DatabaseAway
from services.runtime.metrics import BACKGROUND_FAILURES

log = get_logger()


async def attempt(work: str, doing: Awaitable[None]) -> bool:
    """Awaits a round of some work; returns whether it went well, and logs and counts it if not."""
    try:
        await doing
    except (DatabaseAway, psycopg.OperationalError) as error:
        log.warning("database away; trying again", work=work, error=str(error.__cause__ or error))
    except Exception:  # the boundary of a loop
        log.exception("failed in the background; trying again", work=work)
    else:
        return True
    BACKGROUND_FAILURES.labels(work).inc()
    return False
