"""Where in a text a value stands: what is safe in one place is not in another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from services.offline_model.code_review.values import ESCAPED, INSIDE, WORD, Hole, Origin, Value, texts_of

_RUNS_TEXT = re.compile(
    r"(^|[\s/;&|(])(sh|bash|dash|zsh|ksh|eval|exec|ssh|sudo|su|env|xargs|find|perl|ruby|node|php|awk|sed|python[\d.]*|"
    r"docker|kubectl|cmd|powershell|pwsh|watch|nohup|time|git|tar|rsync|mysql|psql|curl|wget)\b|\$\(|`|<<",
    re.IGNORECASE,
)
# Programs that read their arguments and nothing more of the machine than these name.
PLAIN_PROGRAMS = frozenset(
    {"ping", "ping6", "ls", "cat", "echo", "printf", "df", "du", "wc", "head", "tail", "stat", "file", "md5sum",
     "sha1sum", "sha256sum", "grep", "kill", "touch", "mkdir", "basename", "dirname", "id", "date", "nslookup", "host",
     "dig", "traceroute", "whois"}
)  # fmt: skip
_COMMAND_ENDS = re.compile(r"[;&|\n(){}]")
_REDIRECTS = re.compile(r"[<>]\s*\S*$")
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
    return all(_is_argument(prefix) for prefix in before(value, origin))


def in_sql(origin: Origin, value: Value) -> bool:
    """Tells whether a value can't leave its place in a statement: an identifier that is one, a word within quotes."""
    if origin.kind == ESCAPED:
        return origin.how == "sql"
    return origin.kind == WORD and all(_quote_at_end(prefix, escapes=False) == "'" for prefix in before(value, origin))


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


def _quote_at_end(text: str, *, escapes: bool) -> str:
    """Returns the quote that a text ends within, if it does; a backslash escapes in a shell, but not within `'`."""
    quote, at = "", 0
    while at < len(text):
        char = text[at]
        if escapes and char == "\\" and quote != "'":
            at += 1
            if at == len(text):
                return "\\"
        elif char in "'\"":
            quote = "" if quote == char else quote or char
        at += 1
    return quote


def _is_argument(prefix: str) -> bool:
    """Tells whether what follows is an argument of a program that does no more with it than read it."""
    if _quote_at_end(prefix, escapes=True) or _RUNS_TEXT.search(prefix):
        return False
    last = _COMMAND_ENDS.split(prefix)[-1]
    program, blank, _ = last.lstrip().partition(" ")
    return bool(blank) and PurePosixPath(program).name in PLAIN_PROGRAMS and not _REDIRECTS.search(last)


def _is_text_of_page(prefix: str) -> bool:
    raw = list(_RAW_TAG.finditer(prefix))
    if raw and f"</{raw[-1][1].lower()}" not in prefix[raw[-1].end() :].lower():
        return False
    if prefix.rfind("<") <= prefix.rfind(">"):
        return True
    attribute = _QUOTED_ATTRIBUTE.search(prefix)
    return attribute is not None and _ACTIVE_ATTRIBUTE.fullmatch(attribute[1]) is None
