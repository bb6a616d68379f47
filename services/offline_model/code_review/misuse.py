"""Weaknesses that are decided by what a thing is used for, or by what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from services.offline_model.code_review.flagged import Flagged, judge_each, words_of
from services.offline_model.code_review.library import Called
from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE, Need, Opinion, undecided
from services.offline_model.code_review.shown import bare_name

_SECURITY_WORDS = frozenset(
    (
        "password", "passwords", "passwd", "pwd", "secret", "secrets", "token", "tokens", "signature", "otp", "session",
        "sign", "signs", "signed", "hmac", "mac", "nonce", "cookie", "login", "auth", "authenticate", "verify",
        "credential", "credentials", "salt", "csrf", "remember", "rememberme", "reset", "apikey",
    )
)  # fmt: skip
_WEAK_HASHES = frozenset({"md5", "sha1", "md4", "sha", "md2", "ripemd160"})
_STRONG_HASHES = frozenset({"sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s", "sha3_224", "sha3_256",
                            "sha3_384", "sha3_512"})  # fmt: skip
_STRONG_RANDOM = ("secrets.", "random.SystemRandom", "os.urandom", "uuid.uuid4")
_DELAYS = frozenset({"time.sleep", "asyncio.sleep"})
IN_A_TEST = "The file's path says that it is not deployed."
MAX_USES = 200
# A token of fewer bytes can be tried out.
MIN_BYTES = 8


def weak_crypto(flagged: Flagged) -> Opinion:
    """Weak hashes and randomness: which algorithm it is, and what the result is for."""
    return judge_each(
        flagged, _weak, "I see no hash, cipher or random number in the flagged lines.", by_what_flows=False
    )


def _weak(flagged: Flagged, called: Called) -> Opinion | None:
    if called.name.startswith(_STRONG_RANDOM) or (called.receiver is not None and called.receiver.made_by.startswith(
        _STRONG_RANDOM)):  # fmt: skip
        if called.method.startswith("token_") and any(
            one.only is None or (one.only.kind is int and one.only.value < MIN_BYTES) for one in called.given
        ):
            return undecided("The random number may be short enough to be guessed.")
        said = "The random numbers are the operating system's, which nobody foretells."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
    if called.name.startswith("hashlib."):
        names = {called.method}
        if called.method == "new":
            chosen = called.args[0] if called.args else called.keywords.get("name")
            names = {str(one.value).lower() for one in chosen.constants or ()} if chosen is not None else set()
        if names and names <= _STRONG_HASHES:
            said = f"The hash is {' or '.join(sorted(names))}, which is not weak."
            return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
        if not names & _WEAK_HASHES:
            return undecided("Which hash it is was not shown.")
        return _by_use(flagged, called)
    return _by_use(flagged, called) if _is_weak(called) else None


def _is_weak(called: Called) -> bool:
    root = called.name.partition(".")[0]
    return root in ("random", "numpy", "np", "Crypto", "Cryptodome", "cryptography", "md5", "sha", "Random")


def _by_use(flagged: Flagged, called: Called) -> Opinion:
    """Decides by what the result is used for: what is said of it nearby proves nothing harmless."""
    uses = list(_uses(flagged, called.node))
    sensitive = min(words_of(name for name in uses) & _SECURITY_WORDS, default="")
    denied = called.keywords.get("usedforsecurity")
    if denied is not None and denied.truth is False:
        if sensitive:
            return undecided(f"The hash says that it is not for security, and is used for {sensitive!r}.")
        if _leaves(flagged, called.node):
            return undecided("The hash says that it is not for security; what its callers use it for was not shown.")
        said = "The hash says that it is not used for security, and nothing around it is a secret."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
    if sensitive:
        said = f"A weak algorithm is used here for what is called {sensitive!r}."
        if flagged.is_test:
            return undecided(f"{said} {IN_A_TEST}")
        return Opinion(TRUE_POSITIVE, said, (flagged.evidence(said, called.node),))
    if any(_waits(flagged, node, called.node) for node in flagged.calls):
        said = "The number says how long to wait, and nothing else."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
    function = flagged.file.function_at(called.node.lineno)
    needs = [Need("callers", function.name)] if function is not None else []
    return undecided("What the result is used for can't be told from the names that it meets here.", *needs)


def password_hash(flagged: Flagged) -> Opinion:
    """Passwords that are hashed: a hash that is not weak may still be too fast for them, or have no salt."""
    found = weak_crypto(flagged)
    if found.verdict != FALSE_POSITIVE:
        return found
    return undecided("The hash itself is not weak; whether it is slow enough, and salted, was not shown.")


def _leaves(flagged: Flagged, call: ast.Call) -> bool:
    """Tells whether functions that were shown call the one around a hash for what is called a secret."""
    function = flagged.file.function_at(call.lineno)
    places = flagged.shown.calls.get(function.name, ()) if function is not None else ()
    around = [where.function_at(one.lineno) for where, one in places]
    return any(words_of(_words_in(one)) & _SECURITY_WORDS for one in around if one is not None)


def _words_in(function: ast.AST) -> Iterator[str]:
    yield getattr(function, "name", "")
    for part in ast.walk(function):
        yield from _words(part)


def _waits(flagged: Flagged, node: ast.Call, inner: ast.Call) -> bool:
    """Tells whether a call waits for as long as another says."""
    kept = any(isinstance(part, ast.NamedExpr) for part in ast.walk(node))
    return flagged.file.full_name(node.func) in _DELAYS and not kept and any(part is inner for part in ast.walk(node))


def _uses(flagged: Flagged, call: ast.Call) -> Iterator[str]:
    """Yields the names and texts that the result of a call meets in its function: what it becomes, and goes into."""
    function = flagged.file.function_at(call.lineno)
    body = function.body if function is not None else list(flagged.statements)
    yield from [function.name] if function is not None else []
    known: set[str] = set()
    told = {id(part) for part in ast.walk(call.func)}
    statements = [node for top in body for node in ast.walk(top) if isinstance(node, ast.stmt)][:MAX_USES]
    statements = [one for one in statements if flagged.is_reached(one)]
    for _ in range(3):
        before = set(known)
        for statement in statements:
            parts = [part for part in _heads(statement) if id(part) not in told]
            names = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
            if not (names & known or any(part is call for part in parts)):
                continue
            for part in parts:
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    known.add(part.id)
                yield from _words(part)
        if known == before:
            return


def _heads(statement: ast.stmt) -> Iterator[ast.AST]:
    for name, field in ast.iter_fields(statement):
        if name in {"body", "orelse", "finalbody", "handlers", "cases"}:
            continue
        for part in field if isinstance(field, list) else [field]:
            if isinstance(part, ast.AST):
                yield from ast.walk(part)


def _words(part: ast.AST) -> Iterator[str]:
    if isinstance(part, ast.Name):
        yield part.id
    elif isinstance(part, ast.Attribute):
        yield part.attr
    elif isinstance(part, ast.keyword) and part.arg:
        yield part.arg
    elif isinstance(part, ast.Constant) and isinstance(part.value, str) and len(part.value) < 60:
        yield part.value


def certificates(flagged: Flagged) -> Opinion:
    """TLS without verification."""

    def judge(flagged: Flagged, called: Called) -> Opinion | None:
        verify = called.keywords.get("verify")
        if verify is None or verify.truth is not False:
            return None
        said = "The server's certificate is not verified."
        if flagged.is_test:
            return undecided(f"{said} {IN_A_TEST}")
        return Opinion(TRUE_POSITIVE, said, (flagged.evidence(said, called.node),))

    return judge_each(
        flagged, judge, "I see no connection without verification in the flagged lines.", by_what_flows=False
    )


def timeouts(flagged: Flagged) -> Opinion:
    """Requests that may never end."""

    def judge(flagged: Flagged, called: Called) -> Opinion | None:
        if not called.name.startswith(("requests.", "httpx.")):
            return None
        if "timeout" in called.keywords or called.spread or called.name.startswith("httpx."):
            return undecided("The request has a timeout, or may have one.")
        said = "The request has no timeout, and a silent server holds it for ever."
        if flagged.is_test:
            return undecided(f"{said} {IN_A_TEST}")
        return Opinion(TRUE_POSITIVE, said, (flagged.evidence(said, called.node),))

    return judge_each(flagged, judge, "I see no request in the flagged lines.", by_what_flows=False)


def temporary_files(flagged: Flagged) -> Opinion:
    """Temporary names that somebody else can take first."""

    def judge(flagged: Flagged, called: Called) -> Opinion | None:
        if bare_name(called.node.func) != "mktemp":
            return None
        said = "mktemp() gives a name and no file; somebody else can make the file first."
        return Opinion(TRUE_POSITIVE, said, (flagged.evidence(said, called.node),))

    return judge_each(flagged, judge, "I see no temporary name in the flagged lines.", by_what_flows=False)
