"""Weaknesses that are decided by what a thing is used for, or by what it is."""

from __future__ import annotations

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
# What random numbers and digests are made with; its names say nothing of what they are for.
_APIS = frozenset({"random", "numpy", "secrets", "hashlib", "Crypto", "Cryptodome", "cryptography", "md5", "sha"})

IN_A_TEST = "The file's path says that it is not deployed."


def weak_crypto(flagged: Flagged) -> Opinion:
    """Weak hashes and randomness: what the result is for."""
    for call in flagged.calls:
        if keyword_is(call, "usedforsecurity", value=False):
            said = "The hash says that it is not used for security."
            return Opinion(FALSE_POSITIVE, 0.85, said, (flagged.claim(said),))
    words = flagged.words(but=_APIS)
    sensitive, harmless = min(words & SECURITY_WORDS, default=""), min(words & HARMLESS_WORDS, default="")
    if sensitive and not harmless:
        said = f"A weak algorithm is used here for what is called {sensitive!r}."
        if flagged.is_test:
            return undecided(f"{said} {IN_A_TEST}")
        return Opinion(TRUE_POSITIVE, 0.75, said, (flagged.claim(said),))
    if harmless and not sensitive:
        said = f"The result serves as {harmless!r}, which nothing relies on for security."
        return Opinion(FALSE_POSITIVE, 0.65, said, (flagged.claim(said),))
    name = flagged.scope.function.name if flagged.scope.function else ""
    needs = [Need("callers", name)] if name else []
    return undecided("What the result is used for was not shown.", *needs)


def certificates(flagged: Flagged) -> Opinion:
    """TLS without verification."""
    for call in flagged.calls:
        if keyword_is(call, "verify", value=False):
            said = "The server's certificate is not verified."
            if flagged.is_test:
                return undecided(f"{said} {IN_A_TEST}")
            return Opinion(TRUE_POSITIVE, 0.85, said, (flagged.claim(said),))
    return undecided("I see no connection without verification in the flagged lines.")


def timeouts(flagged: Flagged) -> Opinion:
    """Requests that may never end."""
    for call in flagged.calls:
        if dotted(call.func).startswith(("requests.", "httpx.")):
            if any(keyword.arg == "timeout" or keyword.arg is None for keyword in call.keywords):
                return undecided("The request has a timeout, or may have one.")
            said = "The request has no timeout, and a silent server holds it for ever."
            if flagged.is_test:
                return undecided(f"{said} {IN_A_TEST}")
            return Opinion(TRUE_POSITIVE, 0.75, said, (flagged.claim(said),))
    return undecided("I see no request in the flagged lines.")


def temporary_files(flagged: Flagged) -> Opinion:
    """Temporary names that somebody else can take first."""
    for call in flagged.calls:
        if bare_name(call.func) == "mktemp":
            said = "mktemp() gives a name and no file; somebody else can make the file first."
            return Opinion(TRUE_POSITIVE, 0.75, said, (flagged.claim(said),))
    return undecided("I see no temporary name in the flagged lines.")
