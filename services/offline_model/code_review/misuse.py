"""Weaknesses that are decided by what a thing is used for, or by what it is."""

from __future__ import annotations

import ast
import re

from services.offline_model.code_review.flagged import Flagged, keyword_is
from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE, Need, Opinion, undecided
from services.offline_model.code_review.shown import bare_name, dotted

SECURITY_WORDS = frozenset(
    (
        "password", "passwords", "passwd", "pwd", "secret", "secrets", "token", "tokens", "auth", "signature", "sign",
        "otp", "session", "credential", "credentials", "salt", "nonce", "csrf",
    )
)  # fmt: skip
HARMLESS_WORDS = frozenset(
    (
        "cache", "cached", "etag", "checksum", "fingerprint", "bucket", "shard", "dedup", "jitter", "delay", "sample",
        "shuffle", "color", "colour", "backoff", "pause", "retry", "filename", "avatar", "gravatar", "sleep",
    )
)  # fmt: skip
_PLACEHOLDER = re.compile(
    r"(change[-_ ]?me|example|dummy|placeholder|your[-_ ]|xxx+|<.*>|\$\{.*\}|\b(test|none|null)\b)", re.IGNORECASE
)
_NAMELIKE = re.compile(r"[A-Za-z]+([ _./:-][A-Za-z]+)*[:?]?")


def weak_crypto(flagged: Flagged) -> Opinion:
    """Weak hashes and randomness: what the result is for."""
    for call in flagged.calls:
        if keyword_is(call, "usedforsecurity", value=False):
            said = "The hash says that it is not used for security."
            return Opinion(FALSE_POSITIVE, 0.85, said, (flagged.claim(said),))
    words = flagged.words()
    sensitive, harmless = min(words & SECURITY_WORDS, default=""), min(words & HARMLESS_WORDS, default="")
    if sensitive and not harmless:
        said = f"A weak algorithm is used here for what is called {sensitive!r}."
        return Opinion(TRUE_POSITIVE, 0.75, said, (flagged.claim(said),))
    if harmless and not sensitive:
        said = f"The result serves as {harmless!r}, which nothing relies on for security."
        return Opinion(FALSE_POSITIVE, 0.65, said, (flagged.claim(said),))
    name = flagged.scope.function.name if flagged.scope.function else ""
    needs = [Need("callers", name)] if name else []
    return undecided("What the result is used for was not shown.", *needs)


def hardcoded_secret(flagged: Flagged) -> Opinion:
    """Hard-coded secrets: whether the literal is one."""
    literals = [
        node.value
        for node in ast.walk(flagged.statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    if not literals:
        return undecided("I see no literal in the flagged lines.")
    longest = max(literals, key=len)
    if not longest or _PLACEHOLDER.search(longest):
        said = "The literal is empty or a placeholder, not a secret."
        return Opinion(FALSE_POSITIVE, 0.75, said, (flagged.claim(said),))
    if _NAMELIKE.fullmatch(longest) and (" " in longest or "_" in longest or len(longest) < 12 or "/" in longest):
        said = "The literal reads like a name or a message, not like a secret."
        return Opinion(FALSE_POSITIVE, 0.6, said, (flagged.claim(said),))
    if re.search(r"(^|/)(tests?|examples?|docs)/", flagged.file.path):
        return undecided("The literal looks like a secret, in a file that is not deployed as far as its path tells.")
    said = "The literal looks like a secret, and the program uses it as it stands."
    return Opinion(TRUE_POSITIVE, 0.7, said, (flagged.claim(said),))


def certificates(flagged: Flagged) -> Opinion:
    """TLS without verification."""
    for call in flagged.calls:
        if keyword_is(call, "verify", value=False):
            said = "The server's certificate is not verified."
            return Opinion(TRUE_POSITIVE, 0.85, said, (flagged.claim(said),))
    return undecided("I see no connection without verification in the flagged lines.")


def timeouts(flagged: Flagged) -> Opinion:
    """Requests that may never end."""
    for call in flagged.calls:
        if dotted(call.func).startswith(("requests.", "httpx.")):
            if any(keyword.arg == "timeout" or keyword.arg is None for keyword in call.keywords):
                return undecided("The request has a timeout, or may have one.")
            said = "The request has no timeout, and a silent server holds it for ever."
            return Opinion(TRUE_POSITIVE, 0.75, said, (flagged.claim(said),))
    return undecided("I see no request in the flagged lines.")


def temporary_files(flagged: Flagged) -> Opinion:
    """Temporary names that somebody else can take first."""
    for call in flagged.calls:
        if bare_name(call.func) == "mktemp":
            said = "mktemp() gives a name and no file; somebody else can make the file first."
            return Opinion(TRUE_POSITIVE, 0.75, said, (flagged.claim(said),))
    return undecided("I see no temporary name in the flagged lines.")
