"""The deterministic screen: what can be seen without a model. It blocks; it never allows."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from services.guard.identity_claims import changes_caller
from services.guard.other_users import names_other_user, own_ids
from services.guard.restricted import RestrictedTables
from services.guard.text import digits_for_words, joined_letters, plain_text


class Reason(StrEnum):
    """Why a question was allowed or blocked; the values are those of guard.proto."""

    ALLOWED = "allowed"
    RESTRICTED_TABLE = "restricted_table"
    OTHER_USER = "other_user"
    CALLER_CHANGE = "caller_change"
    MODEL_BLOCKED = "model_blocked"
    GUARD_UNAVAILABLE = "guard_unavailable"


class DeterministicScreen:
    """Looks for attempts to change the caller, for restricted tables and for other users, in this order."""

    def __init__(self, restricted_tables: Sequence[str]) -> None:
        self._tables = RestrictedTables(restricted_tables)

    def find(self, question: str, subject: str) -> Reason | None:
        """Returns why a caller's question must be blocked, or None when nothing was found."""
        text = digits_for_words(plain_text(question))
        own = own_ids(plain_text(subject))
        readings = tuple(dict.fromkeys((text, joined_letters(text))))
        if any(changes_caller(reading, own) for reading in readings):
            return Reason.CALLER_CHANGE
        if self._tables.named_in(text):
            return Reason.RESTRICTED_TABLE
        return Reason.OTHER_USER if any(names_other_user(reading, own) for reading in readings) else None
