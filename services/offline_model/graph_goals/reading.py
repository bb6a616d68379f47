"""What the sentences of a goal ask for, as calls of the graph's tools; what fits no pattern whole is unclear."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from services.kit.tools.names import ADD_EDGE, ADD_NODE, DELETE_EDGE, DELETE_NODE, QUERY_GRAPH, UPDATE_PROPS
from services.offline_model.vocabulary import Vocabulary

Operation = dict[str, Any]
Parts = Mapping[str, str]
STATUS: Final = "status"
_ENDS: Final = ("start", "end")
_QUOTED: Final = r"'[^']*'|\"[^\"]*\"|`[^`]*`|“[^”]*”"
# A name as it is written: quoted, or a word that may have dots and dashes inside.
_NAME: Final = rf"(?:{_QUOTED}|[\w@#][\w.@:#/-]*\w|\w)"
_WORD: Final = rf"(?:{_QUOTED}|[A-Za-z][\w-]*)"
# What stands before a name and is no label of it.
_NO_LABELS: Final = frozenset(
    "all any every each both these those no some my our your his her their its new other edge status about".split()  # noqa: SIM905
)
# What stands where a name would, and is none.
_NO_KEYS: Final = frozenset(
    "with for that and from to as edge relationship relation link everything everybody all them status".split()  # noqa: SIM905
)
_PIECE = re.compile(rf"(?:{_QUOTED}|[^.!?;]|[.!?](?=\S))+[.!?;]*")
_OPENING = re.compile(
    r"^(?:(?:and|then|next|finally|lastly|first|second(?:ly)?|third(?:ly)?|after that|also|please|could you|can you|"
    r"i want to|i want you to|i'd like to|now)\b[\s,]*)+",
    re.IGNORECASE,
)
_JOINT = re.compile(
    r"(?:,\s*(?:and\s+)?(?:then\s+)?|\s+and\s+(?:then\s+)?)(?=(?:create|add|update|set|change|delete|remove|connect|link|"
    r"close|reopen|mark|rename|have|(?:it|its|his|her|their)(?!\s+(?:edges|relationships)))\b)",
    re.IGNORECASE,
)
_CLOSING = re.compile(r",?\s+(?:please|again|now|in total|altogether)$", re.IGNORECASE)
# Words that make a sentence mean another thing than its pattern.
_TURNS = re.compile(r"\b(?:not|\w+n't|never|unless|if|except|without|or|maybe|perhaps|until|when)\b", re.IGNORECASE)
_NODE = re.compile(
    rf"(?:(?:the|a|an)\s+)?(?:(?P<label>{_WORD})\s+)??(?:node\s+)?(?:(?:with\s+)?(?:the\s+)?key\s+)?(?P<key>{_NAME})"
    r"(?:\s+node)?",
    re.IGNORECASE,
)


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

    @property
    def nodes(self) -> list[Parts]:
        """The nodes that were named, the last first."""
        named = (each["arguments"] for each in reversed(self.operations) if "key" in each["arguments"])
        return [{"label": each["label"], "key": each["key"]} for each in named]

    def give(self, node: Parts, properties: Iterable[tuple[str, str]], *, told: bool = False) -> None:
        """Gives a node properties: by an update, or, where they are `told` of a node that is made, in making it."""
        tools = (ADD_NODE, UPDATE_PROPS) if told else (UPDATE_PROPS,)
        named = (each for each in reversed(self.operations) if each["tool"] in tools)
        operation = next((each for each in named if each["arguments"]["key"] == node["key"]), None)
        if operation is None:
            operation = {"tool": UPDATE_PROPS, "arguments": dict(node)}
            self.operations.append(operation)
        given = operation["arguments"].setdefault("properties", {})
        for name, value in properties:
            if given.setdefault(name, value) != value:
                self.conflicts.append(Conflict(node["key"], name, (given[name], value)))


def settled(operations: Iterable[Operation], conflict: Conflict, value: str) -> list[Operation]:
    """Returns operations in which a conflict is settled."""
    found = []
    for operation in operations:
        arguments = operation["arguments"]
        if arguments.get("key") == conflict.key:
            properties = {**arguments.get("properties", {}), conflict.property: value}
            found.append({**operation, "arguments": {**arguments, "properties": properties}})
        else:
            found.append(operation)
    return found


class GoalReader:
    """Reads goals with the words of one world."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._state = rf"(?:{'|'.join(map(re.escape, vocabulary.states_by_word))})"
        self._kinds = {re.sub(r"s$", "", kind.lower().replace("_", " ")): kind for kind in vocabulary.edges}
        self._patterns = [(re.compile(pattern, re.IGNORECASE), read) for pattern, read in self._table()]

    def read(self, text: str) -> Reading:
        """Reads a text sentence by sentence."""
        reading = Reading()
        for sentence in _sentences(self._vocabulary.in_english(text)):
            if _TURNS.search(re.sub(_QUOTED, "", sentence)) or not self._is_read(sentence, reading):
                reading.unclear.append(sentence)
        return reading

    def _is_read(self, sentence: str, reading: Reading) -> bool:
        matches = ((pattern.fullmatch(sentence), read) for pattern, read in self._patterns)
        return any(found is not None and read(found.groupdict(default=""), reading) for found, read in matches)

    def _table(self) -> list[tuple[str, Callable[[Parts, Reading], bool]]]:
        """The patterns, the more special ones first: what makes an edge could pass for what makes a node."""
        make = r"(?:(?:i|we)\s+(?:need|want)|create|add|make|draw|insert|register|new|open\s+(?=an?\s))"
        drop, change = "(?:delete|remove|drop|erase|get rid of)", "(?:update|set|change|switch|turn)"
        find = r"(?:(?:find|list|show|get|give|display|search for|look up|tell)(?:\s+(?:me|us))?)"
        count = r"(?:how many|count|(?:what(?:'s|\s+is)\s+)?(?:the\s+)?(?:number|count)\s+of)"
        edge, some, state = "(?:edge|relationship|relation|link)", r"(?:(?:all|any|every|the|each|of)\s+)*", self._state
        verb = rf"(?P<verb>{'|'.join(map(re.escape, self._kinds)) or '(?!)'})(?:s|ed)?"
        an, key = r"(?:(?:an?|the|another)\s+)?(?:new\s+)?", r"(?:(?:with\s+)?(?:the\s+)?keys?\s+|called\s+|named\s+)?"
        keys = rf"(?P<key>{_NAME})(?P<keys>(?:(?:,|,?\s+and)\s+[\w.-]*\d)*)"
        named, kind = rf"(?:the\s+)?(?P<name>{_WORD})", rf"(?P<kind>{_WORD})"
        to, by = r"\s+(?:to|as)\s+", r"\s+(?:by|with|via|as|using)\s+"
        must = r"\s+(?:should|must|has to|is to|needs to)\s+be"
        among = rf"{some}(?:(?P<state>{state})\s+)?(?P<label>{_WORD})(?:\s+nodes?)?"
        are = rf"(?:\s+(?:(?:that|which)\s+)?(?:are|is)(?:\s+(?:currently|still))?)?\s+(?P<are>{state})"
        there = rf"(?:{are}|\s+(?:are|is|do|have)(?:\s+(?:there|we have|we))?)?"
        having = r"\s+(?:with|whose|where|that have|having)\s+(?:the\s+|an?\s+)?(?P<name>[A-Za-z]\w*)"
        where = rf"(?:{having}(?:\s+(?:is|of|=|equal to))?\s+(?P<value>{_QUOTED}|{state}|{_NAME}))?"
        its_edges = r"\s+(?:with|and|including)\s+(?:all\s+)?(?:of\s+)?(?:its|the)\s+(?:edges|relationships)"
        asked = rf"(?:{find}|which|what|any|are there|{count})"
        return [
            (rf"(?:use|call|run)\s+(?:the\s+)?(?:tool\s+(?P<after>{_NAME})|(?P<before>{_NAME})\s+tool)\b.*",
             self._tool),
            (rf"(?:{make}|(?P<drop>{drop}))\s+{an}{kind}\s+{edge}\s+(?:from|between)\s+(?P<start>.+?)\s+(?:to|and)\s+(?P<end>.+)",
             self._edge),
            (rf"(?:connect|link|(?P<drop>disconnect|unlink))\s+(?P<start>.+?)\s+(?:to|with|and|from)\s+(?P<end>.+?){by}{an}{kind}"
             rf"(?:\s+{edge})?", self._edge),
            (rf"(?:who|what|(?:which|what)\s+{_WORD})\s+{verb}\s+(?P<node>.+)", self._who),
            (rf"{asked}\s+{some}{_WORD}\s+(?:does|did|do)\s+(?P<node>.+?)\s+{verb}", self._whom),
            (rf"{asked}\s+{some}{_WORD}\s+(?:(?:are|is|were|was)\s+)?{verb}\s+by\s+(?P<node>.+)", self._whom),
            (rf"(?:(?:have|let)\s+)?(?P<start>.+?)\s+{verb}\s+(?P<end>.+)", self._verb),
            (rf"{make}\s*{an}(?:(?:two|three|four|\d+)\s+)?(?P<label>{_WORD})(?:\s+node)?[,:]?\s+(?:for\s+)?{key}{keys}(?P<rest>.*)",
             self._create),
            (rf"{change}\s+{named}\s+of\s+(?P<node>.+?){to}(?P<value>.+)", self._update),
            (rf"{change}\s+(?P<node>.+?)'s\s+{named}{to}(?P<value>.+)", self._update),
            (rf"(?:{change}|mark|put|move)\s+(?P<node>.+?){to}(?P<value>'?{state}'?(?:\s+and\s+.+)?)", self._update),
            (rf"mark\s+(?P<node>.+?)\s+(?P<value>{state})", self._update),
            (r"(?P<value>close|reopen|resolve)\s+(?P<node>.+)", self._update),
            (rf"rename\s+(?P<node>.+?){to}(?P<value>.+)", self._rename),
            (rf"(?P<node>.+?){must}(?:\s+set\s+to)?\s+(?P<value>{_QUOTED}|{state})", self._tell),
            (rf"(?P<node>.+?)(?:'s|\s+is)(?:\s+called)?\s+(?P<value>{_QUOTED}|{state})", self._tell_made),
            (rf"{drop}\s+(?P<node>.+?)(?P<edges>{its_edges})?", self._delete),
            (rf"{asked}\s+{among}{there}{where}", self._search),
            (rf"(?:(?:{find}|what(?:'s|\s+is))\s+)?(?:the\s+)?{_WORD}\s+of\s+(?P<node>.+)", self._look_up),
            (rf"(?:{find}|what(?:'s|\s+is))\s+(?P<node>.+)", self._look_up),
            (rf"is\s+(?P<node>.+?)\s+(?:still\s+|already\s+)?{state}", self._look_up),
        ]  # fmt: skip

    # Each returns whether the sentence was understood.

    def _tool(self, said: Parts, reading: Reading) -> bool:
        return _do(reading, unquoted(said["after"] or said["before"]))

    def _edge(self, said: Parts, reading: Reading) -> bool:
        kind = unquoted(said["kind"])
        labels = self._vocabulary.edges.get(kind, ("", ""))
        start, end = (self._node(said[each], reading, label) for each, label in zip(_ENDS, labels, strict=True))
        if start is None or end is None:
            return False
        return _do(reading, DELETE_EDGE if said["drop"] else ADD_EDGE, type=kind, **{"from": start, "to": end})

    def _verb(self, said: Parts, reading: Reading) -> bool:
        kind = self._kinds[said["verb"].lower()]
        labels = self._vocabulary.edges[kind]
        ends = [self._node(said[each], reading, label) for each, label in zip(_ENDS, labels, strict=True)]
        if [label_of(label) for label in labels] != [each["label"] for each in ends if each]:
            return False
        return _do(reading, ADD_EDGE, type=kind, **{"from": ends[0], "to": ends[1]})

    def _who(self, said: Parts, reading: Reading) -> bool:
        return self._followed(said, reading, "in")

    def _whom(self, said: Parts, reading: Reading) -> bool:
        return self._followed(said, reading, "out")

    def _followed(self, said: Parts, reading: Reading, direction: str) -> bool:
        """Asks for what an edge leads to from a node that is named, along it or against it."""
        kind = self._kinds[said["verb"].lower()]
        mine, others = self._vocabulary.edges[kind][:: 1 if direction == "out" else -1]
        node = self._node(said["node"], reading, mine)
        if node is None or node["label"] != label_of(mine):
            return False
        follow = {"type": kind, "direction": direction, "label": label_of(others)}
        return _query(reading, node, follow=[follow])

    def _create(self, said: Parts, reading: Reading) -> bool:
        label = label_of(said["label"])
        properties = self._properties(said["rest"], label)
        if properties is None or said["key"].lower() in _NO_KEYS or said["label"].lower() in _NO_LABELS:
            return False
        for key in (unquoted(said["key"]), *re.findall(r"[\w.-]*\d", said["keys"])):
            _do(reading, ADD_NODE, label=label, key=key)
            if properties:
                reading.give({"label": label, "key": key}, properties, told=True)
        return True

    def _properties(self, text: str, label: str) -> list[tuple[str, str]] | None:
        """Returns the properties that the rest of a sentence gives; None where a part of it is something else."""
        found: list[tuple[str, str]] = []
        words = "|".join(("the|and|with|property|properties|a|an|of|called|named|as", *self._vocabulary.labels))
        name, is_ = rf"\b(?P<name>(?!(?:{words})\b)[A-Za-z]\w*)", r"\s*(?:(?:of|is|as|to)\s+|[:=]\s*)?"
        for pattern, meant in (
            (r"'(?P<name>[A-Za-z]\w*)\s*[:=]\s*(?P<value>[^']*)'", ""),
            (r"\"(?P<name>[A-Za-z]\w*)\s*[:=]\s*(?P<value>[^\"]*)\"", ""),
            (rf"\b(?:called|named|titled)\s+(?P<value>{_QUOTED})", self._vocabulary.title_of(label)),
            (rf"{name}{is_}(?P<value>{_QUOTED})", ""),
            (rf"\b(?P<name>{STATUS}){is_}(?P<value>{self._state})\b", ""),
            (r"\b(?P<name>[A-Za-z]\w*)\s*[:=]\s*(?P<value>[\w.@-]+)", ""),
            (rf"\b(?:as|both|all|is)\s+(?P<value>{self._state})\b", STATUS),
        ):
            for match in re.finditer(pattern, text, re.IGNORECASE):
                told = meant or match.groupdict().get("name") or ""
                found.append((told, self._value(told, match["value"])))
            text = re.sub(pattern, " ", text, flags=re.IGNORECASE)
        left = re.sub(r"\b(?:and|with|the|property|properties|an?|its|set to|set)\b|[,:\s]", "", text.lower())
        return None if left or not all(told for told, _ in found) else found

    def _update(self, said: Parts, reading: Reading) -> bool:
        node = self._node(said["node"], reading)
        name, values = unquoted(said.get("name") or STATUS), [said["value"]]
        if " and " in said["value"] and not re.fullmatch(_QUOTED, said["value"]):
            values = [re.sub(r"^(?:to|as)\s+", "", each) for each in re.split(r"\s+and\s+", said["value"])]
            if not all(re.fullmatch(self._state, unquoted(each), re.IGNORECASE) for each in values):
                return False
        if node is not None:
            reading.give(node, [(name, self._value(name, each)) for each in values])
        return node is not None

    def _rename(self, said: Parts, reading: Reading) -> bool:
        node = self._node(said["node"], reading)
        title = self._vocabulary.title_of(node["label"]) if node else ""
        if node and title:
            reading.give(node, [(title, unquoted(said["value"]))])
        return bool(title)

    def _tell_made(self, said: Parts, reading: Reading) -> bool:
        """How something is may only be told of what was to be made or changed; of others nobody asks anything then."""
        is_made = any(each["tool"] in (ADD_NODE, UPDATE_PROPS) for each in reading.operations)
        return is_made and self._tell(said, reading)

    def _tell(self, said: Parts, reading: Reading) -> bool:
        """Reads what a node is said to be, or one of its properties: `it's open`, `its status must be closed`."""
        about, name = said["node"], STATUS
        owned = re.fullmatch(r"(?:its|his|her|their|the)\s+(\w+)", about, re.IGNORECASE)
        if owned and not any(each["label"] == label_of(owned[1].lower()) for each in reading.nodes):
            about, name = "it", owned[1].lower()
        node = self._node(about, reading)
        if node is not None:
            reading.give(node, [(name, self._value(name, said["value"]))], told=True)
        return node is not None

    def _delete(self, said: Parts, reading: Reading) -> bool:
        node = self._node(said["node"], reading)
        more = {"with_edges": True} if said["edges"] else {}
        return node is not None and _do(reading, DELETE_NODE, **node, **more)

    def _search(self, said: Parts, reading: Reading) -> bool:
        label = said["label"].lower()
        if label in _NO_LABELS or not (unquoted(label).endswith("s") or said["name"]):
            return False
        states = (each for each in (said["state"], said["are"]) if each)
        where = [{"property": STATUS, "value": self._value(STATUS, each)} for each in states]
        if said["name"]:
            where.append({"property": said["name"], "value": self._value(said["name"], said["value"])})
        return _do(reading, QUERY_GRAPH, label=label_of(said["label"]), **({"where": where} if where else {}))

    def _look_up(self, said: Parts, reading: Reading) -> bool:
        node = self._node(said["node"], reading)
        return node is not None and _query(reading, node)

    def _value(self, name: str, text: str) -> str:
        value = unquoted(text)
        return self._vocabulary.states_by_word.get(value.lower(), value) if name == STATUS else value

    def _node(self, text: str, reading: Reading, label: str = "") -> dict[str, str] | None:
        """Returns the node that words mean: by label and key, or by the one of them that tells the other."""
        found = _NODE.fullmatch(text.strip())
        said = found["label"] if found else None
        if found is None or (said and (said.lower() in _NO_LABELS or said[-1].isdigit())):
            return None
        key = unquoted(found["key"])
        if not said:
            is_it = key.lower() in ("it", "this")
            named = (each for each in reading.nodes if is_it or each["key"] == key or each["label"] == label_of(key))
            known = next(named, None)
            if known or is_it or key.lower() in _NO_KEYS:
                return dict(known) if known else None
        spelt = re.match(r"([A-Z]{3,})-\d+$", key)
        label = said or label or self._vocabulary.label_of_key(key) or (spelt[1].lower() if spelt else "")
        return {"label": label_of(label), "key": key} if label else None


def label_of(word: str) -> str:
    """Returns the label that a word for nodes stands for: tickets, ticket and 'Ticket' are Ticket."""
    name = unquoted(word)
    if not name.islower():
        return name
    singular = re.sub(r"(?<=[^s])s$", "", re.sub(r"ies$", "y", name))
    return "".join(part.capitalize() for part in re.split(r"[\s_-]+", singular))


def unquoted(name: str) -> str:
    """Returns a name without its quotes."""
    name = name.strip()
    return name[1:-1].strip() if len(name) > 1 and re.fullmatch(_QUOTED, name) else name


def _sentences(text: str) -> list[str]:
    """Returns the orders and statements of a text, without the words that only join them."""
    pieces = (part for piece in _PIECE.findall(text) for part in _JOINT.split(piece))
    cleaned = (_OPENING.sub("", piece.strip()).strip(" \t\n,;.!?") for piece in pieces)
    return [_CLOSING.sub("", piece) for piece in cleaned if piece]


def _query(reading: Reading, node: Parts, **more: Any) -> bool:
    where = [{"property": "key", "value": node["key"]}]
    return _do(reading, QUERY_GRAPH, label=node["label"], where=where, **more)


def _do(reading: Reading, tool: str, **arguments: Any) -> bool:
    reading.operations.append({"tool": tool, "arguments": arguments})
    return True
