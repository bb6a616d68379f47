"""The skill behind `signalbox-offline-answer`: what queries of a graph found, in words."""

from __future__ import annotations

import json

from services.offline_model.conversation import Answer, Conversation
from services.offline_model.graph_goals.understanding import read_material

_NOTHING = "Nothing found."
_NO_ROWS = "No rows."
_CUT = "[cut:"


def word_findings(conversation: Conversation) -> Answer:
    """Words the results that the last user message holds."""
    given = read_material(conversation.question)
    results = [str(each) for each in given.get("results", ())]
    if not results:
        return Answer("I can only word results: the prompt needs some.")
    return Answer("\n".join(_worded(result) for result in results))


def _worded(result: str) -> str:
    if result.strip() in (_NOTHING, _NO_ROWS):
        return "Nothing was found."
    lines = result.splitlines()
    shown = [line for line in lines if not line.startswith(_CUT)]
    head = f"Found {len(shown)}{' and more' if len(shown) < len(lines) else ''}:"
    return "\n".join([head, *(f"- {_path(line)}" for line in shown)])


def _path(line: str) -> str:
    """Returns one node as `Ticket 'T-1' (status: open)`, and anything else as it is."""
    name, brace, rest = line.removeprefix("(").partition(" {")
    if not brace or "]-" in line or not rest.endswith("})"):
        return line
    try:
        properties = json.loads("{" + rest[:-1])
    except ValueError:
        return line
    told = ", ".join(f"{key}: {value}" for key, value in properties.items())
    return f"{name} ({told})" if told else name
