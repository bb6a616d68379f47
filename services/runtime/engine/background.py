"""Work that a replica does again and again: a loop that ended would leave one that looks well and does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import psycopg

from services.kit.telemetry.logs import get_logger
from services.runtime.errors import DatabaseAway
from services.runtime.metrics import BACKGROUND_FAILURES, BACKGROUND_SUCCESS

log = get_logger()
# Far more than a round takes that gets anywhere.
ROUND_LIMIT_S = 60.0
# Rounds of a loop, after one of which it does without a reason what it otherwise does for one.
SELDOM = 20


async def attempt(work: str, doing: Awaitable[None], *, limit_s: float = ROUND_LIMIT_S) -> bool:
    """Awaits a round of some work, within a limit; returns whether it went well, and logs and counts it if not."""
    try:
        async with asyncio.timeout(limit_s):
            await doing
    except (DatabaseAway, psycopg.OperationalError) as error:
        log.warning("database away; trying again", work=work, error=str(error.__cause__ or error))
    except TimeoutError:
        log.warning("took too long; trying again", work=work, limit_s=limit_s)
    except Exception:  # the boundary of a loop
        log.exception("failed in the background; trying again", work=work)
    else:
        BACKGROUND_SUCCESS.labels(work).set_to_current_time()
        return True
    BACKGROUND_FAILURES.labels(work).inc()
    return False
