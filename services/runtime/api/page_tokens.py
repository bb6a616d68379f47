"""Page tokens: where the next page begins, opaque to callers."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime
from typing import Final
from uuid import UUID

from services.kit.errors import FieldViolation, InvalidRequest

# As the protos have it.
_THREAD_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


def page_token(cursor: str) -> str:
    """Returns the token of a place."""
    return base64.urlsafe_b64encode(cursor.encode()).decode()


def time_token(moment: datetime, name: str) -> str:
    """Returns the token of a place in a list that is sorted by time, then by name."""
    return page_token(f"{moment.isoformat()} {name}")


def place_of(token: str) -> str:
    """Returns the place of a token. Raises InvalidRequest."""
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, ValueError) as error:
        raise not_a_token() from error


def run_place_of(token: str) -> tuple[datetime, str] | None:
    """Returns the place of a token of `time_token` among runs; None of an empty one. Raises InvalidRequest."""
    place = _time_place_of(token)
    try:
        return place and (place[0], str(UUID(place[1])))
    except ValueError as error:
        raise not_a_token() from error


def thread_place_of(token: str) -> tuple[datetime, str] | None:
    """Returns the place of a token of `time_token` among threads; None of an empty one. Raises InvalidRequest."""
    place = _time_place_of(token)
    if place and not _THREAD_ID.fullmatch(place[1]):
        raise not_a_token()
    return place


def _time_place_of(token: str) -> tuple[datetime, str] | None:
    if not token:
        return None
    moment, _, name = place_of(token).partition(" ")
    try:
        found = datetime.fromisoformat(moment)
    except ValueError as error:
        raise not_a_token() from error
    if found.tzinfo is None:
        # Which moment that is would be up to the time zone of a database session.
        raise not_a_token()
    return found, name


def ledger_token(run_id: UUID, sequence: int) -> str:
    """Returns the token of a place in the ledger."""
    return page_token(f"{run_id} {sequence}")


def ledger_place_of(token: str) -> tuple[UUID, int] | None:
    """Returns the place of a token of `ledger_token`; None of an empty one. Raises InvalidRequest."""
    if not token:
        return None
    run_id, _, sequence = place_of(token).partition(" ")
    try:
        found = UUID(run_id)
    except ValueError as error:
        raise not_a_token() from error
    if not sequence.isdecimal() or len(sequence) > 18:
        raise not_a_token()
    return found, int(sequence)


def number_place_of(token: str) -> int:
    """Returns the place of a token of a number; 0 of an empty one. Raises InvalidRequest."""
    if not token:
        return 0
    place = place_of(token)
    if not place.isdecimal() or len(place) > 18:
        raise not_a_token()
    return int(place)


def step_token(step: int) -> str:
    """Returns the token of a place behind a step of a run."""
    # The input is step -1, and places are no less than 0.
    return page_token(str(step + 1))


def step_place_of(token: str) -> int | None:
    """Returns the step of a token of `step_token`; None of an empty one. Raises InvalidRequest."""
    return number_place_of(token) - 1 if token else None


def not_a_token() -> InvalidRequest:
    """Returns the error for a token that no call returned."""
    violation = FieldViolation("page_token", "not a token that this call returned")
    return InvalidRequest("the page token is not one of this call's", violations=[violation])
