"""What speaks for or against a verdict that no value decides, in the text of the flagged lines alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_BAD: Final[Mapping[str, str]] = {
    "crypto": r"\b(md5|sha1|md4|des|rc4|arc4|blowfish|random\.\w+|randint|choice|randrange|uniform|ECB)\b",
    "certificates": r"verify\s*=\s*False",
    "timeouts": r"\b(requests|httpx)\.\w+\(",
    "files": r"\bmktemp\b",
    "secret": r"""(?:=|:|,|\()\s*[bru]*(['"])(?=[^'"]*\d)[^'"\s]{8,}\1""",
    "xml": r"\b(parse|fromstring|XML|iterparse|parseString)\(",
}
_EXCUSED: Final[Mapping[str, str]] = {
    "crypto": r"SystemRandom|\bsecrets\.|usedforsecurity\s*=\s*False|\bsleep\(|\bimport\b",
    "timeouts": r"timeout\s*=",
    "xml": r"\bdefusedxml\b",
}
BY_SIGNS: Final = frozenset(_BAD)


_NAMED = re.compile(r"^\s*(?P<name>\w+)\s*(?::[^=]*)?=[^=]", re.MULTILINE)
_KEPT = r"\b\w*(?:password|passwd|pwd|secret|token|credential)"
# By itself, or as what is taken when nothing else is there.
_GIVEN = _KEPT + r"\w*\s*=\s*(?:[^\n#\[]*(?:,|\bor)\s*)?(?:\w+\.)*{name}\b"
_WORD = re.compile(_KEPT + r"""\s*=\s*[bru]?(['"])[^'"\s<>{}%$]{3,}\1""", re.IGNORECASE)


def is_given_as_secret(text: str, files: Iterable[str]) -> bool:
    """Tells whether the flagged lines give a secret a word, or what they name is given on as one somewhere."""
    if _WORD.search(text):
        return True
    given = [re.compile(_GIVEN.format(name=found["name"]), re.IGNORECASE) for found in _NAMED.finditer(text)]
    return any(pattern.search(file) for pattern in given for file in files)


def has_bad_sign(weakness: str, text: str, *, whole_file: str) -> bool:
    """Tells whether flagged lines show the misuse; some are excused elsewhere in their file."""
    if re.search(_BAD[weakness], text) is None:
        return False
    if weakness == "crypto" and re.search(r"passw|passwd|pwd|secret|token|session", text, re.IGNORECASE):
        return re.search(r"SystemRandom|\bsecrets\.", text) is None
    excuse = _EXCUSED.get(weakness)
    return excuse is None or re.search(excuse, whole_file if weakness == "xml" else text) is None
