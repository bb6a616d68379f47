"""The skill behind `signalbox-offline-guard`: one word, ALLOW or BLOCK, for a question of a named caller.

It reads the caller and the restricted tables from the prompt as any model would, and knows a handful of phrases. What
it cannot see through, it allows: row isolation does not rest on it.
"""

from __future__ import annotations

import re

import orjson

from services.offline_model.conversation import Answer, Conversation

ALLOW = Answer("ALLOW")
BLOCK = Answer("BLOCK")

_CALLER = re.compile(r"^\s*caller\s*:\s*[\"'`]?(?P<id>[^\"'`\n]+)", re.IGNORECASE | re.MULTILINE)
_RESTRICTED = re.compile(r"^.*?\b(?:restricted|off limits)\b[^:\n]*:\s*(?P<tables>.+)$", re.IGNORECASE | re.MULTILINE)
_OTHER_USER = re.compile(r"\b(?:user|owner|account)s?(?:[\s_]*(?:id|no|number))?\W{0,4}(?P<id>\d+)\b", re.IGNORECASE)
_FORBIDDEN = re.compile(
    r"\b(?:password|passwd|credential|api[ _-]?key|secret|access token)s?\b"
    r"|\b(?:all|other|every|another|any|each|different)\s+(?:(?:the|other)\s+)*(?:user|people|person|caller|customer)s?\b"
    r"|\b(?:everyone|everybody|somebody else|someone else)\b"
    r"|\b(?:ignore|disregard|forget|override|bypass)\b.{0,60}\b(?:instruction|rule|filter|restriction|policy|prompt)"
    r"|\b(?:act|answer|behave|pretend|pose)\s+(?:as|to be|that i am|i am|i'm)\b|\bimpersonate\b"
    r"|\b(?:set_config|set\s+role|session\s+authorization|system prompt|developer mode)\b"
    r"|\b(?:drop|delete|truncate|alter|insert)\b.{0,40}\b(?:table|from|into|all|devices?|rows?)\b",
    re.IGNORECASE | re.DOTALL,
)


def screen_question(conversation: Conversation) -> Answer:
    """Says BLOCK for what plainly asks beyond the caller's own data, else ALLOW."""
    question = _unwrapped(conversation.question)
    if _FORBIDDEN.search(question) or _names_other_user(conversation.system, question):
        return BLOCK
    return BLOCK if _names_restricted_table(conversation.system, question) else ALLOW


def _unwrapped(text: str) -> str:
    """Takes a question out of its label and JSON string, where it comes in one."""
    text = re.sub(r"^question\s*:\s*", "", text, flags=re.IGNORECASE)
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value if isinstance(value, str) else text


def _names_other_user(system: str, question: str) -> bool:
    caller = _CALLER.search(system)
    own = caller["id"].strip() if caller else None
    return any(found["id"] != own for found in _OTHER_USER.finditer(question))


def _names_restricted_table(system: str, question: str) -> bool:
    listed = _RESTRICTED.search(system)
    tables = re.findall(r"\w+", listed["tables"]) if listed else []
    spellings = [r"[\s_-]*".join(map(re.escape, table.split("_"))) for table in tables]
    return any(re.search(rf"\b{spelling}s?\b", question, re.IGNORECASE) for spelling in spellings)
