"""Where in a text a value stands: what is safe in one place is not in another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from services.offline_model.code_review.values import ESCAPED, INSIDE, WORD, Hole, Origin, Value, texts_of

_RUNS_TEXT = re.compile(
    r"(^|[\s/;&|(])(sh|bash|dash|zsh|ksh|eval|exec|ssh|sudo|su|env|xargs|find|perl|ruby|node|php|awk|sed|python[\d.]*|"
    r"docker|kubectl|cmd|powershell|pwsh|watch|nohup|time|git|tar|rsync|mysql|psql|curl|wget)\b|\$\(|`|<<",
    re.IGNORECASE,
)
_QUOTED_ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*(?:"[^"]*|'[^']*)$""")
_ACTIVE_ATTRIBUTE = re.compile(r"on\w*|href|src|style|action|formaction|srcdoc|data|xlink:href", re.IGNORECASE)
_RAW_TAG = re.compile(r"<(script|style|iframe|template)\b", re.IGNORECASE)
_FIXED_HOST = re.compile(r"https?://[\w.-]+(:\d+)?[/?#]")


def before(value: Value, origin: Origin) -> Iterator[str]:
    """Yields what stands before each place where an origin takes part; other unknown parts stand as one letter."""
    for text in texts_of(value):
        prefix = ""
        for part in text:
            if isinstance(part, Hole):
                if origin in part.sources:
                    yield prefix
                prefix += "x"
            else:
                prefix += part


def in_command(origin: Origin, value: Value) -> bool:
    """Tells whether what is quoted for a shell, or is a plain word, is read as one argument of a fixed program."""
    if origin.kind == ESCAPED and origin.how != "command":
        return False
    if origin.kind not in (ESCAPED, WORD):
        return False
    return all(
        prefix.strip() and not _RUNS_TEXT.search(prefix) and not _is_open(prefix) for prefix in before(value, origin)
    )


def in_sql(origin: Origin, value: Value) -> bool:
    """Tells whether a value can't leave its place in a statement: an identifier that is one, a word within quotes."""
    if origin.kind == ESCAPED:
        return origin.how == "sql"
    return origin.kind == WORD and all(prefix.count("'") % 2 for prefix in before(value, origin))


def in_page(origin: Origin, value: Value) -> bool:
    """Tells whether what is escaped for HTML, or is a plain word, stands where it is text."""
    if origin.kind not in (ESCAPED, WORD) or (origin.kind == ESCAPED and origin.how != "xss"):
        return False
    return all(_is_text_of_page(prefix) for prefix in before(value, origin))


def in_path(origin: Origin, _value: Value) -> bool:
    """Tells whether a value stays in its directory."""
    return origin.kind in (WORD, INSIDE) or (origin.kind == ESCAPED and origin.how == "path")


def has_fixed_host(value: Value) -> bool:
    """Tells whether scheme and host of a URL are the program's, whatever follows."""
    texts = texts_of(value)
    return all(text and isinstance(text[0], str) and _FIXED_HOST.match(text[0]) for text in texts)


def _is_open(prefix: str) -> bool:
    """Tells whether a text ends within quotes."""
    quote = ""
    for at, char in enumerate(prefix):
        if char in "'\"" and (at == 0 or prefix[at - 1] != "\\"):
            quote = "" if quote == char else quote or char
    return bool(quote)


def _is_text_of_page(prefix: str) -> bool:
    raw = list(_RAW_TAG.finditer(prefix))
    if raw and f"</{raw[-1][1].lower()}" not in prefix[raw[-1].end() :].lower():
        return False
    if prefix.rfind("<") <= prefix.rfind(">"):
        return True
    attribute = _QUOTED_ATTRIBUTE.search(prefix)
    return attribute is not None and _ACTIVE_ATTRIBUTE.fullmatch(attribute[1]) is None
