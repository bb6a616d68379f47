"""Links and addresses of a wording, in whatever way they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from services.kit.statements.readable import Wording

_LINK: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]{1,20}://|www\.|mailto:|tel:|javascript:|data:)[^\s<>\"'`|)\]]+"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"
    r"|(?<![\w@./-])(?:[\w-]{2,}\.)+[a-z]{2,24}(?:/[^\s<>\"'`|)\]]*)?(?![\w-])",
    re.IGNORECASE,
)
_LINK_TARGET: Final = re.compile(r"\]\(\s*<?([^)\s>]+)")


def links_in(text: str) -> Iterator[str]:
    """Yields the links of a text, in lower case, without the marks that end a sentence."""
    return map(_bare, _LINK.findall(text))


def take_links(wording: Wording) -> Iterator[str]:
    """Yields the links of a wording, and takes them out of it."""
    for match in [*_LINK_TARGET.finditer(wording.rest)]:
        yield _bare(match[1])
        wording.blank(*match.span(1))
    for match in [*_LINK.finditer(wording.rest)]:
        if not _ends_a_sentence(wording.said(match)):
            yield _bare(match[0])
            wording.blank(*match.span())


def _ends_a_sentence(said: str) -> bool:
    """Tells whether what looks like a host is the end of a sentence without a space behind it: `devices.The`."""
    head, _, last = said.rpartition(".")
    return "/" not in said and "@" not in said and "." not in head and last[:1].isupper() and last[1:].islower()


def _bare(link: str) -> str:
    return link.lower().rstrip(".,;:!?*_'\"")
