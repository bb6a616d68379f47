"""The deterministic screen: what can be seen without a model. It blocks; it never allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from services.guard.decoding import readings
from services.guard.identity_claims import changes_caller
from services.guard.instructions import asks_for_platform_secrets, instructs_investigator, talks_to_its_readers
from services.guard.other_users import asks_for_secrets, names_other_user, own_ids
from services.guard.owner_columns import OwnerColumns
from services.guard.people import named_person, somebody_known
from services.guard.restricted import RestrictedTables
from services.guard.text import digits_for_words, joined_letters, letters_for_digits, plain_text
from services.guard.vocabulary import in_english

# Characters of a question and the questions before it that are looked at as one.
LONGEST_CONTINUATION = 8000


class TextKind(StrEnum):
    """What a text is: a question to a database, a goal for a graph, an answer to what a run asks, or an incident."""

    QUESTION = "question"
    GOAL = "goal"
    ANSWER = "answer"
    INCIDENT = "incident"


class Reason(StrEnum):
    """Why a text was allowed or blocked; the values are those of guard.proto."""

    ALLOWED = "allowed"
    RESTRICTED_TABLE = "restricted_table"
    OTHER_USER = "other_user"
    CALLER_CHANGE = "caller_change"
    PLATFORM_SECRETS = "platform_secrets"
    MODEL_BLOCKED = "model_blocked"


class DeterministicScreen:
    """Looks for what a text of its kind may not be.

    In a question: attempts to change the caller, restricted tables and other users, in this order. A goal or an answer
    may be about anybody; in it: attempts to change the caller or the rules, and what the platform keeps to itself. An
    incident is about users, rights and secrets that fail; in it: instructions to whoever investigates it. Each is
    looked at in each of its readings: as it is, decoded, with its letters joined, and in English words.
    """

    def __init__(self, restricted_tables: Sequence[str], owner_columns: Sequence[str] = ()) -> None:
        self.restricted_tables = tuple(restricted_tables)
        self._tables = RestrictedTables(restricted_tables)
        self._columns = OwnerColumns(owner_columns)
        self._looks = {TextKind.QUESTION: self._in_question, TextKind.INCIDENT: self._in_incident}

    def find(
        self, text: str, subject: str, earlier: Sequence[str] = (), kind: TextKind = TextKind.QUESTION
    ) -> Reason | None:
        """Returns why a caller's text must be blocked, or None when nothing was found.

        `earlier` are the texts that an agent would be shown with it: what is asked for in two halves is asked for.
        """
        own = own_ids(plain_text(subject))
        look = self._looks.get(kind, self._in_goal)
        found = look(readings(text), own)
        if found is None and earlier:
            found = look(["\n".join((*earlier, text))[-LONGEST_CONTINUATION:]], own)
        return found

    def _in_question(self, typed: Sequence[str], own: frozenset[str]) -> Reason | None:
        texts = _all_texts(typed)
        if any(changes_caller(text, own) for text in texts):
            return Reason.CALLER_CHANGE
        if any(self._tables.named_in(text) or asks_for_secrets(text) for text in texts):
            return Reason.RESTRICTED_TABLE
        if any(named_person(reading) for reading in typed):
            return Reason.OTHER_USER
        return Reason.OTHER_USER if any(self._is_about_others(text, own) for text in texts) else None

    def _in_goal(self, typed: Sequence[str], own: frozenset[str]) -> Reason | None:
        texts = _all_texts(typed)
        if any(talks_to_its_readers(text, own) for text in texts):
            return Reason.CALLER_CHANGE
        return Reason.PLATFORM_SECRETS if any(asks_for_platform_secrets(text) for text in texts) else None

    def _in_incident(self, typed: Sequence[str], _own: frozenset[str]) -> Reason | None:
        return Reason.CALLER_CHANGE if any(map(instructs_investigator, _all_texts(typed))) else None

    def _is_about_others(self, text: str, own: frozenset[str]) -> bool:
        return names_other_user(text, own) or self._columns.used_for_others(text, own) or somebody_known(text, own)


def _all_texts(typed: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(text for reading in typed for text in _texts(reading)))


def _texts(reading: str) -> Iterator[str]:
    text = digits_for_words(plain_text(reading))
    yield text
    yield joined_letters(text)
    yield letters_for_digits(text)
    yield in_english(text)
