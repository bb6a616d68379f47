"""The tokens of a claimed run: one for each service and purpose, renewed while the claim is held, and then no more."""

from __future__ import annotations

import time
from collections.abc import Callable

from services.runtime.errors import ClaimLost

# Much less than a token lives, so that one that was just handed out outlasts the call it is for.
RENEWED_EVERY_S = 60.0


class RunTokens:
    """Tokens by the service they are for, and whether they are for tools that write; `mint` makes one of both."""

    def __init__(self, mint: Callable[[str, bool], str], *, renewed_every_s: float = RENEWED_EVERY_S) -> None:
        self._mint = mint
        self._renewed_every_s = renewed_every_s
        self._tokens: dict[tuple[str, bool], tuple[float, str]] = {}
        self._ended = False

    def reading(self, audience: str) -> str:
        """Returns a token for a service, to read with. Raises ClaimLost once the claim has ended."""
        return self._token(audience, writes=False)

    def acting(self, audience: str) -> str:
        """Returns a token for a service's tools that write. Raises ClaimLost once the claim has ended."""
        return self._token(audience, writes=True)

    def _token(self, audience: str, *, writes: bool) -> str:
        if self._ended:
            raise ClaimLost("the run's claim has ended, and its tokens with it")
        minted_at, token = self._tokens.get((audience, writes), (0.0, ""))
        now = time.monotonic()
        if not token or now - minted_at > self._renewed_every_s:
            token = self._mint(audience, writes)
            self._tokens[audience, writes] = (now, token)
        return token

    def end(self) -> None:
        """Hands out no token any more: the run has ended here, or goes on elsewhere."""
        self._ended = True
        self._tokens.clear()
