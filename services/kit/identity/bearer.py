"""The bearer token in a call's metadata."""

from __future__ import annotations

from collections.abc import Iterable

from services.kit.identity.caller import TokenInvalid, TokenMissing
from services.kit.telemetry.names import AUTHORIZATION, BEARER


def bearer_token(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """Takes the bearer token from a call's metadata. Raises TokenMissing, and TokenInvalid when there are two."""
    given = [value for key, value in metadata or () if key == AUTHORIZATION]
    if len(given) > 1:
        raise TokenInvalid("the metadata key 'authorization' is given more than once")
    scheme, _, token = str(given[0]).partition(" ") if given and isinstance(given[0], str) else ("", "", "")
    # The scheme's case means nothing (RFC 9110, 11.1).
    if scheme.lower() != BEARER.lower():
        raise TokenMissing("this call needs a bearer token in the metadata key 'authorization'")
    return token.strip(" ")


def bearer_metadata(token: str) -> tuple[str, str]:
    """Puts a token into the metadata entry that `bearer_token` reads."""
    return AUTHORIZATION, f"{BEARER} {token}"
