"""What an attacker would send, by weakness, and whether it arrived with its harm in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

MARK: Final = "qzw"
# What is not known stands for anything; it has a mark of its own, so that it can be told from what a request sends.
ANYTHING: Final = "kvj"
_SENT: Mapping[str, Sequence[str]] = {
    "sql": (f"{MARK}' OR 1=1 --", f"{MARK}x"),
    "command": (f"{MARK};id", f"-{MARK}", f"';{MARK};id'", f"{MARK}; id|x"),
    "path": (f"../../{MARK}", f"/{MARK}", ".."),
    "xss": (f"<{MARK} a=\"'>", f"javascript:{MARK}", f'" onx={MARK} "'),
    "code": (f"{MARK}()", f"{MARK}"),
    "ssrf": (f"http://{MARK}.test/", MARK),
}
_OTHERS = (f"{MARK}'\"<;../", MARK)
# Programs that do what their arguments say.
_RUN_ARGUMENTS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "cmd", "powershell", "pwsh", "ssh", "sudo", "su", "env", "xargs", "find",
     "eval", "perl", "ruby", "node", "php", "awk", "sed", "python", "python3", "docker", "kubectl", "git", "tar",
     "rsync", "nohup", "time", "watch"}
)  # fmt: skip
# What a client is told besides where to go.
_NO_URL = frozenset({"params", "data", "json", "headers", "cookies", "timeout", "auth", "files"})
# In a script, in an attribute that acts, or in one without quotes.
_TAG = re.compile(
    rf"<script[^>]*>[^<]*{MARK}|<\w[^>]*\b(?:href|src|on\w+)\s*=\s*['\"]?[^'\"<>]*{MARK}|<\w[^>]*=[^'\">]*{MARK}",
    re.IGNORECASE,
)


def sent(weakness: str, words: Sequence[str]) -> Iterator[str]:
    """Yields what to try: attacks alone, and around words of the program that a check may look for."""
    attacks = _SENT.get(weakness, _OTHERS)
    yield from attacks
    for word in words:
        yield f"{attacks[0]}{word}"
        yield f"{word}/{attacks[0]}" if weakness == "path" else f"{word}{attacks[0]}"


def harm(weakness: str, given: Sequence[object], keywords: Mapping[str, object], mark: str) -> bool:
    """Tells whether a call is given a marked value in a form that does harm."""
    texts = [text.lower() for text in _texts([*given, *keywords.values()])]
    if not any(mark in text for text in texts):
        return False
    if weakness == "command":
        return _commands(given, keywords, mark)
    if weakness == "sql":
        told = [*given[:1], *(keywords.get(name) for name in ("sql", "query", "statement"))]
        return any(mark in text.lower() for text in _texts(told))
    if weakness == "xss":
        return any(
            f"<{mark}" in text or f'" onx={mark}' in text or _TAG.search(text.replace(mark, MARK)) for text in texts
        )
    if weakness == "loading":
        loaded = given[:1] or [value for name, value in keywords.items() if name != "Loader"]
        return any(mark in text.lower() for text in _texts(loaded))
    if weakness == "path":
        return any(mark in text and (".." in text or text.startswith(f"/{mark}")) for text in texts) or mark == ANYTHING
    if weakness == "ssrf":
        where = [*given[:2], *(value for name, value in keywords.items() if name not in _NO_URL)]
        return any(re.match(rf"(https?://)?[^/?#]*{mark}", text.lower()) for text in _texts(where))
    return True


def _commands(given: Sequence[object], keywords: Mapping[str, object], mark: str) -> bool:
    told = given[0] if given else keywords.get("args", "")
    if any(mark in text for text in _texts([*given[1:], *(v for name, v in keywords.items() if name != "args")])):
        return True
    if isinstance(told, list | tuple):
        words = [str(word).lower() for word in told]
        marked = next((index for index, word in enumerate(words) if mark in word), len(words))
        if marked in (0, len(words)):
            return marked == 0
        runs = PurePosixPath(words[0]).name in _RUN_ARGUMENTS
        return runs or (words[marked].startswith("-") and "--" not in words[1:marked])
    text = str(told).lower()
    if f"{mark};id" not in text:
        # Without the sign that ends a command, it is a word to any shell; at the front it is the command.
        return text.lstrip().startswith(mark)
    try:
        words = list(shlex.shlex(text, posix=True, punctuation_chars=True))
    except ValueError:
        return True
    # Whole as it was sent, it is one word to a shell; taken apart, it is an order.
    return not any(f"{mark};id" in word for word in words) or any(word in _RUN_ARGUMENTS for word in words)


def _texts(values: object) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    elif isinstance(values, bytes):
        yield values.decode("latin-1")
    elif isinstance(values, Mapping):
        for key, value in values.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(values, list | tuple | set | frozenset) or hasattr(values, "__next__"):
        for value in values if isinstance(values, list | tuple | set | frozenset) else ():
            yield from _texts(value)
    elif hasattr(values, "values") and not isinstance(values, type):
        yield from _texts(list(values.values()))
