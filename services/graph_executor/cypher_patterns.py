"""Callers' Cypher, read for where its patterns begin, and for what only some servers know.

The records of calls are nodes without edges and without a label of the policy. So a pattern comes to none of them when
one of its nodes has a label, or is one that the query has found before. The plans of Neo4j and Memgraph show that too;
this holds for servers whose plans tell less, and before any plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from services.graph_executor.cypher_text import Token, tokens_of
from services.graph_executor.cypher_words import CLAUSES
from services.kit.tools.executor import ToolRefused

# Clauses of other dialects, which would create, run or reach what the bounds do not know.
_REFUSED: Final = frozenset(
    {
        "INSERT", "NEXT", "LET", "FILTER", "SHOW", "TERMINATE", "USING", "IMPORT", "FINISH", "COMMIT", "ROLLBACK",
        "GRANT", "REVOKE", "ALTER", "CONCURRENT", "TRANSACTIONS",
    }
)  # fmt: skip
_WRITING: Final = frozenset({"CREATE", "MERGE", "SET", "DELETE", "DETACH", "REMOVE", "FOREACH"})
_SUBQUERIES: Final = frozenset({"COUNT", "COLLECT"})
_PATHS: Final = frozenset({"SHORTESTPATH", "ALLSHORTESTPATHS"})
_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
# What ends the names that WITH lets through.
_PROJECTED: Final = CLAUSES | {"LIMIT", "SKIP", "OFFSET"}
_ARROW: Final = frozenset({"-", "<", ">"})
_FOUND: Final = frozenset({"MATCH", "MERGE", "CREATE"})
_END: Final = Token("end", "")


def check_patterns(text: str, *, writes: bool) -> None:
    """Checks that every pattern of a query begins at a label, or at what was found by one.

    One that does not write has no clause that does, whatever a server makes of it. Raises ToolRefused.
    """
    if "\\u" in text:
        # Some servers read such a sign before they read strings, which it may end.
        raise ToolRefused("odd_character", "Write signs as they are, or in parameters, not as \\u….")
    _Patterns(list(tokens_of(text)), writes=writes).check()


class _Patterns:
    """One pass over a query's tokens, clause by clause."""

    def __init__(self, tokens: Sequence[Token], *, writes: bool) -> None:
        self._tokens = tokens
        self._writes = writes
        self._ends = dict(_brackets(tokens))
        self._in_map = frozenset(_inside_maps(tokens))
        # Names that stand for what was found at a label.
        self._bound: set[str] = set()
        # Where each FOREACH ends, and the names that there were before it.
        self._before_foreach: dict[int, frozenset[str]] = {}

    def check(self) -> None:
        """Goes through the clauses. Raises ToolRefused."""
        at, clause = 0, ""
        while at < len(self._tokens):
            word = self._keyword(at)
            self._check_word(at, word)
            self._leave_foreach(at, word)
            if word in CLAUSES:
                clause = word
                if word in _FOUND:
                    at = self._parts(at + 1, created=word == "CREATE")
                    continue
                if word == "WITH":
                    self._project(at + 1)
                elif word == "UNION":
                    self._bound.clear()
            elif word == "AS" and clause not in ("WITH", "RETURN"):
                self._bound.add(self._at(at + 1).name)
            elif clause == "SET" and self._text(at, 3).startswith(("]=", "]+=")):
                raise ToolRefused("unsupported", "Write the name of a property after a dot.")
            elif self._begins_path(at):
                self._part(at, created=False)
            at += 1

    def _at(self, place: int) -> Token:
        return self._tokens[place] if 0 <= place < len(self._tokens) else _END

    def _text(self, place: int, tokens: int) -> str:
        return "".join(self._at(each).text for each in range(place, place + tokens))

    def _keyword(self, at: int) -> str:
        """The word that a name is, where it can be a keyword: it is no property, label, parameter or key of a map."""
        if self._at(at - 1).text in (".", ":", "$") or (at in self._in_map and self._at(at + 1).text == ":"):
            return ""
        word, before = self._at(at).word, self._at(at - 1).word
        # STARTS WITH, ENDS WITH, ON CREATE and ON MATCH begin no clause of that name.
        inside = (word == "WITH" and before in ("STARTS", "ENDS")) or (word in _FOUND and before == "ON")
        return "" if inside else word

    def _check_word(self, at: int, word: str) -> None:
        if word in _REFUSED:
            raise ToolRefused("unsupported", f"{word} is not supported; for a property, write it after a dot.")
        if word in _WRITING and not self._writes:
            raise ToolRefused("write_refused", "The query would write; this call may only read.")
        if word in _SUBQUERIES and self._at(at + 1).text == "{":
            raise ToolRefused("unsupported", f"{word} takes no query of its own here.")
        if word == "IS" and "NULL" not in (self._at(at + 1).word, self._at(at + 2).word):
            raise ToolRefused("unsupported", "IS goes with NULL and NOT NULL only; a label is written after a colon.")

    def _leave_foreach(self, at: int, word: str) -> None:
        """Keeps the names that there are before a FOREACH, and forgets those of it at its end."""
        if at in self._before_foreach:
            self._bound = set(self._before_foreach[at])
        if word == "FOREACH" and at + 1 in self._ends:
            self._before_foreach[self._ends[at + 1]] = frozenset(self._bound)

    def _project(self, at: int) -> None:
        """What WITH lets through: everything after *, names that stand alone, and the new ones."""
        through: set[str] = set()
        while at < len(self._tokens) and self._keyword(at) not in _PROJECTED:
            alone = self._at(at - 1).text == "," or self._at(at - 1).word in ("WITH", "DISTINCT")
            following = self._at(at + 1)
            if self._at(at).text == "*" and alone:
                through |= self._bound
            elif self._at(at).word == "AS":
                through.add(following.name)
            elif alone and (following.text in (",", "") or self._keyword(at + 1) in _PROJECTED):
                through |= {self._at(at).name} & self._bound
            at = self._ends.get(at, at) + 1
        self._bound = through - {""}

    def _begins_path(self, at: int) -> bool:
        """Whether a node of a pattern stands here, outside of a clause of patterns: what follows it is an edge."""
        if self._at(at).text != "(" or self._at(at).kind != "sign" or at not in self._ends:
            return False
        after = self._ends[at] + 1
        return self._text(after, 2) in ("-[", "--", "->") or self._text(after, 3) in ("<-[", "<--", "<-(")

    def _parts(self, at: int, *, created: bool) -> int:
        """Checks the patterns of a clause, and returns where they end."""
        while True:
            at = self._part(at, created=created)
            if self._at(at).text != ",":
                return at
            at += 1

    def _part(self, at: int, *, created: bool) -> int:
        """Checks one pattern, and returns where it ends."""
        names: set[str] = set()
        if self._at(at + 1).text == "=":
            names.add(self._at(at).name)
            at += 2
        wrapped = self._at(at).word in _PATHS and self._at(at + 1).text == "("
        end = self._ends.get(at + 1, at) if wrapped else None
        at += 2 if wrapped else 0
        anchored = created
        before = _END
        while self._at(at).text in ("(", "[", *_ARROW) and self._at(at).kind == "sign":
            token, last = self._at(at), self._ends.get(at, at)
            if token.text == "[" and before.text != "-":
                break
            if token.text == "(":
                if before.text not in ("", "-", ">"):
                    raise ToolRefused("unsupported", "A path is nodes and edges in turn, without repetitions of parts.")
                anchored |= self._is_anchored(at)
            if token.text in _OPEN and self._at(at + 1).kind in ("name", "quoted"):
                names.add(self._at(at + 1).name)
            before, at = self._at(last), last + 1
        if before.text != ")":
            raise ToolRefused("unsupported", "A path begins and ends with a node, and its edges have no repetitions.")
        if not anchored:
            raise ToolRefused("unlabelled_node", "Every pattern must begin at a node with a label, such as (t:Ticket).")
        self._bound |= names
        return at if end is None else end + 1

    def _is_anchored(self, at: int) -> bool:
        """Whether a node has a label, or a name that stands for what was found. Raises ToolRefused for a group."""
        first, second = self._at(at + 1), self._at(at + 2)
        if first.text == "(":
            raise ToolRefused("unsupported", "A part of a path can't be repeated here; give edges an end, as in *1..4.")
        return first.text == ":" or (bool(first.name) and (second.text == ":" or first.name in self._bound))


def _brackets(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yields where each bracket opens and closes; that they fit is known."""
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token.kind == "sign" and token.text in _OPEN:
            opened.append(at)
        elif token.kind == "sign" and token.text in _OPEN.values():
            yield opened.pop(), at


def _inside_maps(tokens: Sequence[Token]) -> Iterator[int]:
    """Yields what stands in braces, not deeper in brackets of another kind."""
    opened: list[str] = []
    for at, token in enumerate(tokens):
        if token.kind == "sign" and token.text in _OPEN:
            opened.append(token.text)
        elif token.kind == "sign" and token.text in _OPEN.values():
            opened.pop()
        elif opened and opened[-1] == "{":
            yield at
