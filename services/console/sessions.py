"""Logins, kept in the browser of who has logged in: sealed, so that neither the browser nor its owner can read them.

What every replica can open needs no store. A cookie holds 4 KB, and tokens may take more: a session has several.
"""

from __future__ import annotations

import base64
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

SESSION: Final = "__Host-signalbox_session_"
PART_CHARACTERS: Final = 3800
MOST_PARTS: Final = 4
SHORTEST_KEY: Final = 32
# What is opened is no longer than what was sealed; a browser could send what unfolds to gigabytes, had it the key.
MOST_BYTES: Final = 256 * 1024


class KeysUnusable(Exception):
    """The file with the keys of sessions holds none, or one that can be guessed."""


class SessionTooLarge(Exception):
    """The tokens of a login are more than cookies hold."""


@dataclass(frozen=True)
class Session:
    """A login: the token that the gateway is asked with until `ends_at`, what renews it, and whose it is.

    Times are seconds since 1970 by this clock. `subject` is the issuer's name of the person.
    """

    token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    ends_at: float
    begun_at: float
    subject: str
    name: str


class Seal:
    """Seals for one purpose, by keys of which the first seals and all open: one is added before it comes first."""

    def __init__(self, keys: Sequence[str], purpose: str) -> None:
        """Raises KeysUnusable."""
        if not keys or any(len(key) < SHORTEST_KEY for key in keys):
            raise KeysUnusable(f"keys of sessions are lines of at least {SHORTEST_KEY} characters; there has to be one")
        self._fernet = MultiFernet([Fernet(_derived(key, purpose)) for key in keys])

    def seal(self, content: Mapping[str, Any]) -> str:
        """Returns text that tells nothing."""
        return self._fernet.encrypt(zlib.compress(orjson.dumps(content))).decode()

    def opened(self, text: str, life_s: int) -> dict[str, Any] | None:
        """Returns what was sealed; None for what is older, was sealed for something else, or never."""
        try:
            content = zlib.decompressobj().decompress(self._fernet.decrypt(text, ttl=life_s), MOST_BYTES)
            found: dict[str, Any] = orjson.loads(content)
        except (InvalidToken, ValueError, zlib.error):
            return None
        return found


class SessionCookies:
    """Sessions as cookies: of this host alone, never sent in the clear, out of reach of scripts."""

    def __init__(self, seal: Seal, life_s: int) -> None:
        self._seal = seal
        self._life_s = life_s

    def session(self, cookies: Mapping[str, str]) -> Session | None:
        """Returns the session that a browser has, for as long as one may last."""
        parts: list[str] = []
        while (part := cookies.get(f"{SESSION}{len(parts)}")) and len(parts) < MOST_PARTS:
            parts.append(part)
        content = self._seal.opened("".join(parts), self._life_s)
        try:
            session = Session(**content) if content else None
        except TypeError:  # of another release
            return None
        return session if session and time.time() - session.begun_at < self._life_s else None

    def kept(self, session: Session, cookies: Collection[str]) -> list[str]:
        """Returns the cookies of a session, and the ends of those that are there beyond. Raises SessionTooLarge."""
        text = self._seal.seal(asdict(session))
        parts = [text[begin : begin + PART_CHARACTERS] for begin in range(0, len(text), PART_CHARACTERS)]
        if len(parts) > MOST_PARTS:
            raise SessionTooLarge(f"the tokens of the issuer take {len(text)} characters")
        left_s = round(session.begun_at + self._life_s - time.time())
        kept = [cookie(f"{SESSION}{number}", part, left_s) for number, part in enumerate(parts)]
        return kept + self.ended(set(cookies) - {f"{SESSION}{number}" for number in range(len(parts))})

    def ended(self, cookies: Collection[str]) -> list[str]:
        """Returns what takes a session from a browser that has these cookies."""
        return [cookie(name, "", 0) for name in sorted(cookies) if name.startswith(SESSION)]


def cookie(name: str, value: str, life_s: int) -> str:
    """Returns a cookie that comes along with links from elsewhere, and with nothing else from there."""
    return f"{name}={value}; Path=/; Max-Age={max(0, life_s)}; Secure; HttpOnly; SameSite=Lax"


def read_keys(text: str) -> Sequence[str]:
    """Returns the keys in a file, one a line."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _derived(key: str, purpose: str) -> bytes:
    derived = HKDF(SHA256(), length=32, salt=None, info=f"signalbox console {purpose}".encode()).derive(key.encode())
    return base64.urlsafe_b64encode(derived)
