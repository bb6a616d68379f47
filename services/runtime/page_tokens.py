"""Page tokens: where the next page begins, opaque to callers."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime

from services.kit.errors import FieldViolation, InvalidRequest


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


def time_place_of(token: str) -> tuple[datetime, str] | None:
    """Returns the place of a token of `time_token`; None of an empty one. Raises InvalidRequest."""
    if not token:
        return None
    moment, _, name = place_of(token).partition(" ")
    try:
        return datetime.fromisoformat(moment), name
    except ValueError as error:
        raise not_a_token() from error


def number_place_of(token: str) -> int:
    """Returns the place of a token of a number; 0 of an empty one. Raises InvalidRequest."""
    if not token:
        return 0
    place = place_of(token)
    if not place.isdecimal() or len(place) > 18:
        raise not_a_token()
    return int(place)


def not_a_token() -> InvalidRequest:
    """Returns the error for a token that no call returned."""
    violation = FieldViolation("page_token", "not a token that this call returned")
    return InvalidRequest("the page token is not one of this call's", violations=[violation])
