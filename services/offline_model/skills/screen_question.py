"""The skill behind `signalbox-offline-guard`: one word, ALLOW or BLOCK, for what a named caller says.

It knows questions from goals and answers by their label, as the prompt has it: goals may be about anybody. It reads the
caller and the restricted tables from the prompt as any model would, and knows a handful of phrases. What it cannot see
through, it allows: row isolation does not rest on it.
"""

from __future__ import annotations

import re

import orjson

from services.offline_model.conversation import Answer, Conversation
from services.offline_model.vocabulary import Vocabulary

ALLOW = Answer("ALLOW")
BLOCK = Answer("BLOCK")

_CALLER = re.compile(r"^\s*caller\s*:\s*[\"'`]?(?P<id>[^\"'`\n]+)", re.IGNORECASE | re.MULTILINE)
_RESTRICTED = re.compile(r"^.*?\b(?:restricted|off limits)\b[^:\n]*:\s*(?P<tables>.+)$", re.IGNORECASE | re.MULTILINE)
_OTHER_USER = re.compile(r"\b(?:user|owner|account)s?(?:[\s_]*(?:id|no|number))?\W{0,4}(?P<id>\d+)\b", re.IGNORECASE)
_TO_ITS_READERS = (
    r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,60}\b(?:instruction|rule|filter|restriction|policy|prompt)"
    r"|\b(?:act|answer|behave|pretend|pose)\s+(?:as|to be|that i am|i am|i'm)\b|\bimpersonate\b|\bsystem prompt\b"
)
_FORBIDDEN = re.compile(
    r"\b(?:password|passwd|credential|api[ _-]?key|secret|access token)s?\b"
    r"|\b(?:all|other|every|another|any|each|different)\s+(?:(?:the|other)\s+)*(?:user|people|person|caller|customer)s?\b"
    r"|\b(?:everyone|everybody|somebody else|someone else)\b"
    rf"|{_TO_ITS_READERS}"
    r"|\b(?:set_config|set\s+role|session\s+authorization|developer mode)\b"
    r"|\b(?:drop|delete|truncate|alter|insert)\b.{0,40}\b(?:table|from|into|all|rows?)\b",
    re.IGNORECASE | re.DOTALL,
)


_FORBIDDEN_TO_GOALS = re.compile(_TO_ITS_READERS, re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"^(?P<kind>question|goal|answer)\s*:\s*", re.IGNORECASE)


def screen_question(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Says BLOCK for what plainly asks beyond the caller's own data, alone or with the turns before it, else ALLOW.

    Goals and answers are blocked for what they say to their readers.
    """
    question, earlier = _unwrapped(conversation.question)
    readings = [question, " ".join((*earlier, question))]
    label = _LABEL.match(conversation.question)
    if label and label["kind"].lower() != "question":
        return BLOCK if any(map(_FORBIDDEN_TO_GOALS.search, readings)) else ALLOW
    return BLOCK if any(_asks_beyond(conversation.system, reading, vocabulary) for reading in readings) else ALLOW


def _asks_beyond(system: str, question: str, vocabulary: Vocabulary) -> bool:
    if _FORBIDDEN.search(question) or _changes_what_is_guarded(question, vocabulary):
        return True
    return _names_other_user(system, question) or _names_restricted_table(system, question)


def _changes_what_is_guarded(question: str, vocabulary: Vocabulary) -> bool:
    change = re.search(r"\b(?:drop|delete|truncate|alter|insert)\b(?P<what>.*)", question, re.IGNORECASE | re.DOTALL)
    return change is not None and any(
        re.search(rf"\b{re.escape(guarded)}s?\b", change["what"], re.IGNORECASE) for guarded in vocabulary.guarded
    )


def _unwrapped(text: str) -> tuple[str, list[str]]:
    """Takes a question, and the questions before it, out of their labels and JSON, where they come in them."""
    asked, _, told = text.partition("\nEarlier turns: ")
    asked = _LABEL.sub("", asked)
    question, turns = _json(asked), _json(told) if told else []
    if not isinstance(question, str) or not isinstance(turns, list):
        return text, []
    said = ("question", "said")
    return question, [str(turn[name]) for turn in turns if isinstance(turn, dict) for name in said if name in turn]


def _json(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _names_other_user(system: str, question: str) -> bool:
    caller = _CALLER.search(system)
    own = caller["id"].strip() if caller else None
    return any(found["id"] != own for found in _OTHER_USER.finditer(question))


def _names_restricted_table(system: str, question: str) -> bool:
    listed = _RESTRICTED.search(system)
    tables = re.findall(r"\w+", listed["tables"]) if listed else []
    spellings = [r"[\s_-]*".join(map(re.escape, table.split("_"))) for table in tables]
    return any(re.search(rf"\b{spelling}s?\b", question, re.IGNORECASE) for spelling in spellings)
