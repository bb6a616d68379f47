"""What the sentences of a goal ask for, as calls of the graph's tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from services.kit.tools.names import (
    ADD_EDGE,
    ADD_NODE,
    DELETE_EDGE,
    DELETE_NODE,
    QUERY_GRAPH,
    UPDATE_PROPS,
)
from services.offline_model.graph_goals.text import NAME, QUOTED, label_of, sentences, unquoted

Operation = dict[str, Any]
STATUS: Final = "status"
# What a node is said to be, where its status is meant.
_STATES: Final = r"open|closed|done|resolved|in progress|new|blocked|cancelled"
_WORD: Final = rf"(?:{QUOTED}|[A-Za-z][\w-]*)"
_SOME: Final = r"(?:all|any|every|the|each|my|me)\s+"
_MANY: Final = r"all|any|every|each|both|these|those|no"
_MAKE: Final = r"(?:create|add|make|draw)"
_DELETE: Final = r"(?:delete|remove|drop)"
_FIND: Final = r"(?:find|list|show|get|search for|look up|give me|display)"


@dataclass(frozen=True)
class Conflict:
    """A property of a node that is to have two values."""

    key: str
    property: str
    values: tuple[str, str]


@dataclass
class Reading:
    """What was made out of a text: operations in order, conflicts, and the sentences that were not understood."""

    operations: list[Operation] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)

    def made(self, label: str) -> str:
        """Returns the key of the node of a label that was last spoken of; empty for none."""
        return next((key for known, key in reversed(self.spoken_of()) if known == label), "")

    def spoken_of(self) -> list[tuple[str, str]]:
        """Returns the nodes that were named, in order."""
        return [(each["arguments"]["label"], each["arguments"]["key"]) for each in self.operations if _names(each)]

    def label_of_key(self, key: str) -> str:
        """Returns the label of a node that was named; empty for none."""
        return next((label for label, known in self.spoken_of() if known == key), "")


def read(text: str) -> Reading:
    """Reads a text sentence by sentence."""
    reading = Reading()
    for sentence in sentences(text):
        if not any(pattern(sentence, reading) for pattern in _PATTERNS):
            reading.unclear.append(sentence)
    return reading


def _names(operation: Operation) -> bool:
    return "label" in operation["arguments"] and "key" in operation["arguments"]


def _tool(sentence: str, reading: Reading) -> bool:
    found = re.match(
        rf"(?:use|call|run|with)\s+(?:the\s+)?(?:tool\s+(?P<after>{NAME})|(?P<before>{NAME})\s+tool)\b", sentence, re.I
    )
    if found is None:
        return False
    reading.operations.append(_operation(unquoted(found["after"] or found["before"])))
    return True


def _edge(sentence: str, reading: Reading) -> bool:
    found = re.match(
        rf"(?:{_MAKE}|(?P<delete>{_DELETE}))\s+(?:an?\s+|the\s+)?(?:new\s+)?(?P<type>{_WORD})\s+"
        rf"(?:edge|relationship|relation|link)\s+from\s+(?P<start>.+?)\s+to\s+(?P<end>.+)$",
        sentence,
        re.I,
    )
    if found is None:
        return False
    start, end = _end(found["start"], reading), _end(found["end"], reading)
    if start is None or end is None:
        return False
    tool = DELETE_EDGE if found["delete"] else ADD_EDGE
    reading.operations.append(_operation(tool, type=unquoted(found["type"]), **{"from": start, "to": end}))
    return True


def _end(text: str, reading: Reading) -> dict[str, str] | None:
    """Returns the node that an end of an edge names: by label and key, or by the one of them that tells the other."""
    words = re.sub(r"^(?:the|a|an)\s+|\s+node\b|\bnode\s+", "", text.strip(), flags=re.I)
    words = re.sub(r"\s*\bwith\s+(?:the\s+)?key\b\s*", " ", words, flags=re.I)
    both = re.fullmatch(rf"(?P<label>{_WORD})\s+(?P<key>{NAME})", words.strip())
    if both:
        return {"label": label_of(both["label"]), "key": unquoted(both["key"])}
    name = unquoted(words)
    if label := reading.label_of_key(name):
        return {"label": label, "key": name}
    if key := reading.made(label_of(words.strip())):
        return {"label": label_of(words.strip()), "key": key}
    return None


def _create_node(sentence: str, reading: Reading) -> bool:
    found = re.match(
        rf"(?:create|add|make|open|insert)\s+(?:an?\s+|the\s+)?(?:new\s+)?(?P<label>{_WORD})(?:\s+node)?,?\s+"
        rf"(?:(?:with\s+)?(?:the\s+)?key\s+|called\s+|named\s+)?(?P<key>{NAME})(?P<rest>.*)$",
        sentence,
        re.I,
    )
    if found is None or unquoted(found["key"]).lower() in {"with", "for", "that", "and", "from", "edge", "to"}:
        return False
    properties = _properties(found["rest"])
    if properties is None:
        return False
    arguments: dict[str, Any] = {"label": label_of(found["label"]), "key": unquoted(found["key"])}
    if properties:
        arguments["properties"] = properties
    reading.operations.append(_operation(ADD_NODE, **arguments))
    return True


def _properties(text: str) -> dict[str, Any] | None:
    """Returns the properties that the rest of a sentence gives; None where a part of it is something else."""
    properties: dict[str, Any] = {}
    rest = text
    for pattern in (
        r"'(?P<name>[A-Za-z]\w*)\s*[:=]\s*(?P<value>[^']*)'",
        r"\"(?P<name>[A-Za-z]\w*)\s*[:=]\s*(?P<value>[^\"]*)\"",
        rf"\b(?P<name>(?!(?:the|and|with|property|properties|a|an|of)\b)[A-Za-z]\w*)\s+(?:of\s+|is\s+|as\s+)?(?P<value>{QUOTED})",
        r"\b(?P<name>[A-Za-z]\w*)\s*[:=]\s*(?P<value>[\w.@-]+)",
        rf"\b(?P<name>{STATUS})\s+(?P<value>{_STATES})\b",
    ):
        for found in re.finditer(pattern, rest, re.I):
            properties[found["name"]] = unquoted(found["value"])
        rest = re.sub(pattern, " ", rest, flags=re.I)
    left = re.sub(r"\b(?:and|with|the|property|properties|a|an|its|set to|set)\b|[,:\s]", "", rest, flags=re.I)
    return None if left else properties


def _update(sentence: str, reading: Reading) -> bool:
    # No `me`: "show me".
    node = rf"(?:(?P<label>{_WORD})\s+(?:node\s+)?)??(?:with\s+(?:the\s+)?key\s+)?(?P<key>{NAME})"
    said = _first_match(
        sentence,
        rf"(?:update|set|change|switch|turn)\s+(?:the\s+)?(?P<name>{_WORD})\s+of\s+(?:the\s+)?{node}\s+(?:to|as)\s+(?P<value>.+)$",
        rf"(?:update|set|change)\s+(?:the\s+)?{node}(?:'s)\s+(?P<name>{_WORD})\s+to\s+(?P<value>.+)$",
        rf"(?:mark|set)\s+(?:the\s+)?{node}\s+(?:as|to)\s+(?P<value>{_STATES}|'(?:{_STATES})')$",
        rf"(?P<verb>close|reopen)\s+(?:the\s+)?{node}$",
    )
    if said is None:
        return False
    key = unquoted(said["key"])
    label = _label(said["label"], key, reading)
    if not label:
        return False
    verb = {"close": "closed", "reopen": "open"}.get(said.get("verb", "").lower(), "")
    properties = {unquoted(said.get("name") or STATUS): verb or unquoted(said["value"])}
    reading.operations.append(_operation(UPDATE_PROPS, label=label, key=key, properties=properties))
    return True


def _first_match(sentence: str, *patterns: str) -> dict[str, str] | None:
    """Returns the named parts of a sentence by the first pattern that it fits, empty where one is missing."""
    found = next((match for pattern in patterns if (match := re.match(pattern, sentence, re.I))), None)
    return found.groupdict(default="") if found else None


def _label(word: str, key: str, reading: Reading) -> str:
    """Returns the label of a node: as said, as said with its key before, or what a key such as TICKET-1 begins with."""
    if word:
        return label_of(word)
    spelt = re.match(r"([A-Z]{3,})-\d+$", key)
    return reading.label_of_key(key) or (spelt[1].capitalize() if spelt else "")


def _delete_node(sentence: str, reading: Reading) -> bool:
    found = re.match(
        rf"{_DELETE}\s+(?:the\s+)?(?:(?P<label>{_WORD})\s+(?:node\s+)?)??(?:with\s+(?:the\s+)?key\s+)?(?P<key>{NAME})"
        r"(?P<edges>\s+(?:with|and|including)\s+(?:all\s+)?(?:of\s+)?(?:its|the)\s+(?:edges|relationships))?$",
        sentence,
        re.I,
    )
    if found is None:
        return False
    key = unquoted(found["key"])
    if re.fullmatch(_MANY, found["label"] or "", re.I):
        return False  # of many at once, nobody has said which
    label = _label(found["label"] or "", key, reading)
    if not label:
        return False
    more = {"with_edges": True} if found["edges"] else {}
    reading.operations.append(_operation(DELETE_NODE, label=label, key=key, **more))
    return True


def _search(sentence: str, reading: Reading) -> bool:
    state = rf"(?P<state>{_STATES})"
    clause = (
        r"\s+(?:with|whose|where|that have|having)\s+(?:the\s+|an?\s+)?(?P<name>[A-Za-z]\w*)\s+"
        r"(?:is\s+|of\s+|=\s*|equal to\s+)?(?P<value>.+)"
    )
    said = _first_match(
        sentence,
        rf"{_FIND}\s+(?:{_SOME})*(?:{state}\s+)?(?P<label>[A-Za-z][\w-]*?s|{QUOTED})(?:\s+nodes)?(?:{clause})?$",
        rf"(?:which|what)\s+(?P<label>[A-Za-z][\w-]*s)\s+are\s+(?:there|(?P<state>{_STATES}))$",
        rf"(?:which|what)\s+{state}\s+(?P<label>[A-Za-z][\w-]*s)\s+are\s+there$",
        rf"{_FIND}\s+(?:{_SOME})*(?P<label>{_WORD})\s+(?:node\s+)?(?:with\s+(?:the\s+)?key\s+)?(?P<key>{NAME})$",
    )
    if said is None:
        return False
    where = []
    if said.get("key"):
        where.append({"property": "key", "value": unquoted(said["key"])})
    if said.get("state"):
        where.append({"property": STATUS, "value": said["state"].lower()})
    if said.get("name"):
        where.append({"property": said["name"], "value": unquoted(said["value"])})
    arguments: dict[str, Any] = {"label": label_of(said["label"])}
    reading.operations.append(_operation(QUERY_GRAPH, **arguments, **({"where": where} if where else {})))
    return True


def _statement(sentence: str, reading: Reading) -> bool:
    """Reads what a node that was just made is to be; another value for what it already has is a conflict."""
    found = re.match(
        rf"(?:the\s+)?(?P<what>it|{_WORD}(?:\s+{NAME})??|its status)(?:'s status)?\s+"
        rf"(?:should|must|has to|is to|needs to|shall)\s+be\s+(?P<value>{_STATES}|{QUOTED})$",
        sentence,
        re.I,
    )
    made = [each for each in reading.operations if each["tool"] in (ADD_NODE, UPDATE_PROPS)]
    if found is None or not made:
        return False
    operation, value = made[-1], unquoted(found["value"]).lower()
    properties = operation["arguments"].setdefault("properties", {})
    before = properties.get(STATUS)
    if before is not None and before != value:
        reading.conflicts.append(Conflict(operation["arguments"]["key"], STATUS, (before, value)))
    properties[STATUS] = before or value
    return True


def settled(operations: Sequence[Operation], conflict: Conflict, value: str) -> list[Operation]:
    """Returns operations in which a conflict is settled."""
    return [
        _with(each, conflict, value) if each["arguments"].get("key") == conflict.key else each for each in operations
    ]


def _with(operation: Operation, conflict: Conflict, value: str) -> Operation:
    arguments: Mapping[str, Any] = operation["arguments"]
    properties = {**arguments.get("properties", {}), conflict.property: value}
    return {**operation, "arguments": {**arguments, "properties": properties}}


def _operation(tool: str, **arguments: Any) -> Operation:
    return {"tool": tool, "arguments": arguments}


# The more special ones first: what creates an edge could pass for what creates a node.
_PATTERNS: Final[Sequence[Callable[[str, Reading], bool]]] = (
    _tool, _edge, _create_node, _update, _delete_node, _search, _statement,
)  # fmt: skip
