"""Callers' Cypher, read for its bounds before the database reads it.

The server's parser takes twice as long for each level of nesting and can't be stopped, nor can the evaluation of one
expression; so what could grow there is bounded here. Whether a query writes, and what it reads, the engine decides:
`GRAPH.RO_QUERY` and `cypher_plan.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from services.graph_executor.cypher_words import CLAUSES, FIRST, FUNCTIONS, KEYWORDS, LOOPS, REFUSED, SEGMENTS
from services.graph_executor.elements import KEY, fits_key
from services.graph_executor.policy import GraphPolicy
from services.kit.tools.executor import ToolRefused

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<comment>//|/\*)
    |(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<quoted>`[^`]+`(?!`))
    |(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.(?!\.)[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<name>[^\W\d]\w*)
    |(?P<sign>\.\.|<=|>=|<>|[-+*/%^=<>.,:;|(){}\[\]$!&])""",
    re.VERBOSE | re.DOTALL,
)
_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSE: Final = frozenset(_OPEN.values())
# How many times as much + may make of a text or a list, over all clauses.
MOST_GROWTH: Final = 8
_RESERVED: Final = ("signalbox", "__")
_UNARY: Final = frozenset({"NOT", "-", "+"})
MOST_TOKENS: Final = 1000


@dataclass(frozen=True)
class Token:
    """A token: its kind, its text, and where it stands."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """A name in upper case, as keywords are compared; empty for anything else."""
        return self.text.upper() if self.kind == "name" else ""

    @property
    def name(self) -> str:
        """What a name or a quoted name says; empty for anything else."""
        return self.text.strip("`") if self.kind in ("name", "quoted") else ""


class Bounds:
    """Reads queries for the bounds of a policy."""

    def __init__(self, policy: GraphPolicy) -> None:
        self._policy = policy
        self._names = frozenset(policy.labels) | frozenset(policy.edges)

    def check(self, text: str, parameters: Mapping[str, object], *, write: bool) -> str:
        """Returns a query that may be given to the server. Raises ToolRefused."""
        limits = self._policy.limits
        if len(text) > limits.query_length:
            raise ToolRefused("too_long", f"The query has more than {limits.query_length} characters.")
        tokens = list(tokens_of(text))
        if len(tokens) > MOST_TOKENS:
            raise ToolRefused("too_long", f"The query has more than {MOST_TOKENS} words and signs.")
        if not tokens:
            raise ToolRefused("empty", "The query is empty.")
        _Reading(tokens, self._policy, self._names, parameters, writes=write).check()
        return text


def tokens_of(text: str) -> Iterator[Token]:
    """Yields the tokens of a query. Raises ToolRefused."""
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ToolRefused("odd_character", f"The query can't be read from {text[place : place + 20]!r} on.")
        kind = str(match.lastgroup)
        if kind == "comment":
            raise ToolRefused("comment_refused", "Comments are not taken; leave them out.")
        if kind != "space":
            yield Token(kind, match.group())
        place = match.end()


class _Reading:
    """One pass over a query's tokens."""

    def __init__(
        self,
        tokens: list[Token],
        policy: GraphPolicy,
        names: frozenset[str],
        parameters: Mapping[str, object],
        *,
        writes: bool,
    ) -> None:
        self._tokens = tokens
        self._policy = policy
        self._names = names
        self._parameters = parameters
        self._writes = writes
        # Names so far, and whether what stands here is what a clause creates.
        self._seen: set[str] = set()
        self._creates = False
        # Where the names of procedures end that may be called.
        self._procedures: set[int] = set()
        # What is open: its sign (or CASE), whether it is a loop, whether it is a relationship.
        self._open: list[tuple[str, bool, bool]] = []

    def check(self) -> None:
        unary = 0
        for at, token in enumerate(self._tokens):
            # A chain of these nests like brackets.
            unary = unary + 1 if (token.word or token.text) in _UNARY else 0
            self._nest(at, token)
            if len(self._open) + unary > self._policy.limits.depth:
                raise ToolRefused("too_deep", f"The query nests deeper than {self._policy.limits.depth} levels.")
            self._check_word(at, token)
            if self._writes:
                self._check_written(at, token)
            self._check_sign(at, token)
            self._check_call(at, token)
        if self._at(0).word not in FIRST:
            raise ToolRefused("unparsable", f"A query begins with a clause, not with {self._at(0).text[:40]!r}.")
        self._check_growth()
        if self._open:
            raise ToolRefused("unparsable", f"{self._open[-1][0]} is not closed.")

    def _at(self, place: int) -> Token:
        return self._tokens[place] if 0 <= place < len(self._tokens) else Token("end", "")

    def _nest(self, at: int, token: Token) -> None:
        if token.text in _OPEN and token.kind == "sign":
            loop = self._is_loop(at, token)
            if loop and any(inner for _, inner, _ in self._open):
                raise ToolRefused("nested_loops", "A list inside a list can't be gone through; use UNWIND.")
            self._open.append((token.text, loop, token.text == "[" and self._at(at - 1).text == "-"))
        elif token.word == "CASE" and self._is_keyword(at):
            self._open.append(("CASE", False, False))
        elif token.text in _CLOSE and token.kind == "sign":
            if not self._open or _OPEN.get(self._open[-1][0]) != token.text:
                raise ToolRefused("unparsable", f"{token.text} closes nothing.")
            self._open.pop()
        elif token.word == "END" and self._open and self._open[-1][0] == "CASE":
            self._open.pop()

    def _is_loop(self, at: int, token: Token) -> bool:
        if token.text == "(":
            return self._at(at - 1).word in LOOPS
        return token.text == "[" and bool(self._at(at + 1).name) and self._at(at + 2).word == "IN"

    def _is_keyword(self, at: int) -> bool:
        """Whether a name can be a keyword: it is no property, no label and no key of a map."""
        return self._at(at - 1).text not in (".", ":", "$") and not (self._in_map() and self._at(at + 1).text == ":")

    def _in_map(self) -> bool:
        return bool(self._open) and self._open[-1][0] == "{"

    def _in_relationship(self) -> bool:
        return bool(self._open) and self._open[-1][2]

    def _check_word(self, at: int, token: Token) -> None:
        if token.name.lower().startswith(_RESERVED):
            raise ToolRefused(
                "reserved_name", f"Names may not begin with {' or '.join(_RESERVED)}: {token.name[:40]!r}."
            )
        if not token.word or not self._is_keyword(at):
            return
        if token.word in REFUSED:
            raise ToolRefused("unsupported", f"{token.word} is not supported; for a property, write it after a dot.")
        if token.word == "CALL":
            self._check_procedure(at)
        if token.word == "RANGE" and self._at(at + 1).text == "(":
            self._check_range(at + 2)

    def _check_sign(self, at: int, token: Token) -> None:
        if token.kind != "sign":
            return
        if token.text == ";":
            raise ToolRefused("multiple_statements", "Give one statement, without a semicolon.")
        if token.text == "$" and self._at(at + 1).text not in self._parameters:
            raise ToolRefused("unknown_parameter", f"${self._at(at + 1).text[:40]} is not among the parameters.")
        if token.text == ":" and not self._in_map():
            self._check_label(at + 1)
        if token.text == "*" and self._in_relationship():
            self._check_path(at + 1)

    def _check_label(self, at: int) -> None:
        name = self._at(at).name
        if name not in self._names:
            known = ", ".join(sorted(self._names))
            raise ToolRefused("unknown_label", f"There is no label or edge type {name[:40]!r}; there are: {known}.")
        if self._writes and not self._in_relationship() and name not in self._policy.labels:
            # A label that the policy does not give to nodes is one that nobody has rights on.
            raise ToolRefused("unknown_label", f"{name} is a type of edges, and no label that a node can have.")
        if self._at(at + 1).text == "|":
            self._check_label(at + 3 if self._at(at + 2).text == ":" else at + 2)

    def _check_path(self, at: int) -> None:
        most = self._policy.limits.path_length
        last = self._at(at + 1 if self._at(at).text == ".." else at + 2 if self._at(at + 1).text == ".." else at)
        if not last.text.isdecimal() or int(last.text) > most:
            raise ToolRefused("path_too_long", f"A path needs an end of at most {most} edges, such as *1..{most}.")

    def _check_call(self, at: int, token: Token) -> None:
        if not token.name or self._at(at + 1).text != "(" or token.word in KEYWORDS or at in self._procedures:
            return
        if token.word not in FUNCTIONS or self._at(at - 1).text == ".":
            raise ToolRefused("function_refused", f"The function {token.name[:40]!r} is not supported here.")

    def _check_growth(self) -> None:
        growth = plus = 1
        for token in self._tokens:
            if token.word in SEGMENTS:
                growth, plus = growth * plus, 1
            plus += token.text == "+"
        if growth * plus > MOST_GROWTH:
            raise ToolRefused("too_much_growth", "The query adds too often with +; add in your answer instead.")

    def _check_written(self, at: int, token: Token) -> None:
        if token.word == "UNION" and self._is_keyword(at):
            raise ToolRefused("unsupported", "A query that writes has no UNION; make two of it.")
        if token.word == "SET" and self._at(at + 2).text == "[":
            raise ToolRefused("unsupported", "Write the name of a property after a dot.")
        if token.text == "&":
            # Some servers take it between labels: the next one would be a label that nobody has looked at.
            raise ToolRefused("unsupported", "Write each label after a colon, as in (t:Ticket:User).")
        if token.word == "REMOVE" and self._at(at + 2).text == ":":
            raise ToolRefused("unsupported", "A label stays; make another node.")
        if token.word in CLAUSES and self._is_keyword(at):
            self._creates = token.word in ("CREATE", "MERGE")
        opens = self._creates and token.kind == "sign" and token.text == "("
        if opens and (not self._at(at - 1).name or self._at(at - 1).word in ("CREATE", "MERGE")):
            self._check_created(at + 1)
        self._check_key(at, token)
        self._seen.add(token.name)

    def _check_created(self, at: int) -> None:
        """Checks that a node that may be created has a label: no tool would come to it."""
        name = self._at(at).name
        if self._at(at + 1 if name else at).text != ":" and (not name or name not in self._seen):
            raise ToolRefused("node_without_label", "A node that is created needs a label, such as (t:Ticket).")

    def _check_key(self, at: int, token: Token) -> None:
        """Checks what may become a key: the server must never see one that would kill it (see `fits_key`)."""
        named = token.name.lower() == KEY and self._at(at + 1).text in (":", "=")
        if not named or not (self._at(at - 1).text == "." or self._in_map()):
            return
        value = self._at(at + 2)
        given = value.text[1:-1] if value.kind == "string" else None
        after = self._at(at + 3)
        if value.text == "$":
            found = self._parameters.get(self._at(at + 3).name)
            given, after = found if isinstance(found, str) else None, self._at(at + 4)
        ends = after.kind == "end" or after.text in (",", "}", ")") or (after.kind == "name" and after.word != "IN")
        if given is None or not ends or "\\" in given or not fits_key(given):
            raise ToolRefused("key_refused", "In a query that writes, a key is a plain text or a parameter.")

    def _check_procedure(self, at: int) -> None:
        name, place = self._at(at + 1).text, at + 2
        while self._at(place).text == ".":
            name, place = f"{name}.{self._at(place + 1).text}", place + 2
        self._procedures.add(place - 1)
        if name not in self._policy.procedures:
            known = ", ".join(self._policy.procedures) or "none"
            raise ToolRefused("procedure_refused", f"{name[:60]!r} may not be called; these may: {known}.")

    def _check_range(self, at: int) -> None:
        numbers, place = [], at
        while True:
            sign = -1 if self._at(place).text == "-" else 1
            place += sign < 0
            if not self._at(place).text.isdecimal() or len(self._at(place).text) > 18:
                break
            numbers.append(sign * int(self._at(place).text))
            place += 2
            if self._at(place - 1).text != ",":
                break
        most = self._policy.limits.list_length
        whole = len(numbers) in (2, 3) and self._at(place - 1).text == ")"
        step = abs(numbers[2]) if len(numbers) == 3 else 1
        if not whole or step == 0 or abs(numbers[1] - numbers[0]) // step > most:
            raise ToolRefused("range_too_long", f"range() takes whole numbers, and makes at most {most} values.")
