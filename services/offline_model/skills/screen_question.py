"""The skill behind `signalbox-offline-guard`: one word, ALLOW or BLOCK, for what a named caller says.

Goals and answers may be about anybody. It knows a handful of phrases; what it cannot see through, it allows: row
isolation does not rest on it.
"""

from __future__ import annotations

import re

from services.offline_model.conversation import Answer, Conversation
from services.offline_model.prompt_data import TextToScreen, as_prompt
from services.offline_model.vocabulary import Vocabulary

ALLOW = Answer("ALLOW")
BLOCK = Answer("BLOCK")

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
_FORBIDDEN_TO_OTHERS = re.compile(_TO_ITS_READERS, re.IGNORECASE | re.DOTALL)
# Of an incident: services act as somebody, and ignore rules, all day.
_TO_INVESTIGATOR = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,60}\b(?:instruction|prompt)s?\b|\bsystem prompt\b",
    re.IGNORECASE | re.DOTALL,
)
_CHANGE = re.compile(r"\b(?:drop|delete|truncate|alter|insert)\b(?P<what>.*)", re.IGNORECASE | re.DOTALL)


def screen_question(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Says BLOCK for what plainly asks beyond the caller's own data, alone or with the turns before it, else ALLOW.

    Goals, answers and incidents are blocked for what they say to their readers. What is no text to screen is blocked.
    """
    asked = as_prompt(TextToScreen, conversation.data)
    if asked is None:
        return BLOCK
    earlier = [turn.question or turn.said for turn in asked.earlier_turns]
    readings = (asked.text, " ".join((*earlier, asked.text)))
    if asked.kind != "question":
        forbidden = _TO_INVESTIGATOR if asked.kind == "incident" else _FORBIDDEN_TO_OTHERS
        return BLOCK if any(map(forbidden.search, readings)) else ALLOW
    return BLOCK if any(_asks_beyond(asked, reading, vocabulary) for reading in readings) else ALLOW


def _asks_beyond(asked: TextToScreen, text: str, vocabulary: Vocabulary) -> bool:
    change = _CHANGE.search(text)
    return (
        _FORBIDDEN.search(text) is not None
        or (change is not None and any(_names(change["what"], guarded) for guarded in vocabulary.guarded))
        or any(found["id"] != asked.caller for found in _OTHER_USER.finditer(text))
        or any(_names(text, table) for table in asked.restricted_tables)
    )


def _names(text: str, name: str) -> bool:
    spelt = r"[\s_-]*".join(map(re.escape, name.split("_")))
    return re.search(rf"\b{spelt}s?\b", text, re.IGNORECASE) is not None
