"""Calls whose harm is decided by how they were set up: parsers of XML, and hashes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.offline_model.counter_search.attacks import ANYTHING, MARK
from services.offline_model.counter_search.run import Handled, Unknown

_PARSES = frozenset({"parse", "fromstring", "XML", "iterparse", "parseString", "fromstringlist", "feed"})
_WEAK = frozenset({"md4", "md5", "sha", "sha1", "ripemd160"})


class Parser:
    """A parser of XML, and whether it was told to resolve what a document names."""

    def __init__(self, resolves: Any) -> None:
        self.resolves = resolves

    def told(self, method: str, names: Sequence[str], given: Sequence[Any]) -> None:
        """Takes in what a method is told, arguments by how they are written and by value."""
        if method == "setFeature" and len(given) > 1 and "external" in names[0] + str(given[0]):
            self.resolves = given[1]


def parser_made(name: str, keywords: Mapping[str, Any]) -> Parser | None:
    """Returns the parser that a call makes; None when it makes none."""
    if name == "xml.sax.make_parser":
        return Parser(resolves=False)
    if name.startswith("lxml.") and name.endswith("XMLParser"):
        return Parser(keywords.get("resolve_entities", True))
    return None


def parse_of(name: str, owner: Any, given: Sequence[Any], keywords: Mapping[str, Any]) -> set[str] | None:
    """Returns the marks that a document brings to a parser that resolves; None when the call parses nothing."""
    if name.rpartition(".")[2] not in _PARSES or not (given or keywords):
        return None
    document = str(given[0]) if given else " ".join(map(str, keywords.values()))
    marks = {mark for mark in (MARK, ANYTHING) if mark in document}
    setups = [one for one in (owner, *given[1:], keywords.get("parser")) if isinstance(one, Parser)]
    if name.startswith("defusedxml."):
        return set()
    if setups:
        resolves = setups[0].resolves
        return {ANYTHING} if isinstance(resolves, Unknown | Handled) else marks if resolves else set()
    if name.startswith("xml."):
        return {ANYTHING} if len(given) > 1 or "parser" in keywords else set()
    return marks


def hash_of(name: str, _owner: Any, given: Sequence[Any], keywords: Mapping[str, Any]) -> set[str] | None:
    """Returns a mark when a hash is chosen by the name of a weak one; None when the call chooses none."""
    if name != "hashlib.new":
        return None
    chosen = given[0] if given else keywords.get("name", Unknown())
    if isinstance(chosen, Unknown | Handled):
        return {ANYTHING}
    return {MARK} if str(chosen).lower().replace("-", "") in _WEAK else set()
