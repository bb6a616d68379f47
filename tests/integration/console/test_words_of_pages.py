"""What pages say, they say in words: no name of an enum or of a method stands where a person reads."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import httpx

from tests.integration.console.every_page import addresses, fill
from tests.integration.console.fake_gateway import FakeGateway

# What is quoted, or is for programs. An error's reason is for whoever looks it up, and stands there as code.
_QUOTED = frozenset(("code", "pre", "kbd", "script", "style", "textarea", "template"))
_EMPTY = frozenset(("meta", "link", "rect", "path", "br", "input", "hr", "line", "circle", "img", "polygon"))
_SPOKEN = ("aria-label", "title", "placeholder", "alt")
# `RUN_STATE_FAILED`, `UNAVAILABLE`; `CallTool`, `ListRuns`, `data_chat_pb2`.
_CODES = re.compile(
    r"\b[A-Z]+(?:_[A-Z0-9]+)+\b|\b(?:UNAVAILABLE|UNSPECIFIED|UNKNOWN|INTERNAL|CANCELLED|ABORTED)\b"
    r"|\b(?:Call|List|Get|Create|Count|Explain|Watch|Resume|Look)[A-Z][a-z]+[A-Za-z]*\b|\bsignalbox\.v1\b|_pb2\b"
)


class Spoken(HTMLParser):
    """The texts of a page that are read, with those that are read aloud."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._within: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Enters an element."""
        self.texts += [value for name, value in attrs if name in _SPOKEN and value]
        if tag not in _EMPTY:
            self._within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Leaves it, with what was left open in it."""
        while self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Notes a text."""
        if not _QUOTED & set(self._within):
            self.texts.append(data)


async def test_no_page_says_a_name_of_the_contract(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    fill(gateway)
    said, read = dict[str, list[str]](), ""
    for address in addresses():
        texts = " \n".join(Spoken((await inside.get(address)).text).texts)
        read += texts
        if found := _CODES.findall(texts):
            said[address] = found
    assert said == {}
    # How calls ended is there, in words.
    for words in ("unavailable", "database down", "http 503"):
        assert words in read
