"""What a run was asked, in a line: what lists call it, and what it is found by."""

from __future__ import annotations

from google.protobuf.message import Message

LONGEST_TITLE = 200


def title(text: str) -> str:
    """Returns a text as a title: one line of at most 200 characters, of which the last says whether there was more."""
    # No more of it is looked at than could be shown; what Postgres can't hold is left out.
    beginning = text[: LONGEST_TITLE * 10].replace("\x00", "")
    line = " ".join(beginning.split())
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1]}…"


def first_text(asked: Message) -> str:
    """Returns the first text of an input; empty where it has none."""
    return next((value for _, value in asked.ListFields() if isinstance(value, str)), "")
