"""Batch tokens: what they say, and what is taken for none."""

from __future__ import annotations

import time
from typing import Any

import jwt
import pytest

from services.kit.identity.batch_tokens import BatchTokenClaims, BatchTokenMinter, BatchTokenVerifier
from services.kit.identity.caller import Caller, ClocksApart, TokenInvalid
from services.kit.identity.caller_tokens import CallerTokenMinter, CallerTokenVerifier
from services.kit.identity.keys import generate_keypair
from services.kit.telemetry.names import AUDIENCE_BATCHES

KEYS, OTHER = generate_keypair(), generate_keypair()
CLAIMS = BatchTokenClaims(Caller("27", frozenset({"reader"}), {"tenant": "north"}), "batch-1")


def signed(**changes: Any) -> str:
    """A token like the minter's but for some claims; None leaves one out."""
    now = int(time.time())
    claims = {
        "iss": "signalbox-batches", "aud": "signalbox-runtime", "sub": "27", "roles": [], "iat": now, "exp": now + 60,
        "claims": {}, "batch": "batch-1", **changes,
    }  # fmt: skip
    given = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(given, KEYS.private_pem, algorithm="EdDSA")


def test_a_token_says_for_whom_and_of_which_batch() -> None:
    minter = BatchTokenMinter(KEYS.private_pem, CLAIMS)
    said = BatchTokenVerifier(KEYS.public_pem).verify(minter.mint())
    assert said == CLAIMS
    assert said.caller.claims == {"tenant": "north"}
    assert minter.mint() == minter.mint()


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "signalbox-gateway"},
        {"iss": "signalbox-runtime"},
        {"aud": AUDIENCE_BATCHES},
        {"batch": None},
        {"batch": ""},
        {"batch": ["batch-1"]},
        {"sub": ""},
        {"iat": "1700000000"},
        {"roles": "admin", "claims": []},
        {"iat": int(time.time()) - 700, "exp": int(time.time()) + 10_000},
    ],
)
def test_what_says_anything_else_is_no_batch_token(changes: dict[str, Any]) -> None:
    with pytest.raises(TokenInvalid):
        BatchTokenVerifier(KEYS.public_pem).verify(signed(**changes))


def test_another_key_signs_none() -> None:
    with pytest.raises(TokenInvalid):
        BatchTokenVerifier(OTHER.public_pem).verify(signed())


def test_one_that_has_run_out_is_a_matter_of_clocks() -> None:
    now = int(time.time())
    with pytest.raises(ClocksApart):
        BatchTokenVerifier(KEYS.public_pem).verify(signed(iat=now - 300, exp=now - 100))


def test_the_gateways_word_is_for_the_service_that_it_names() -> None:
    word = CallerTokenMinter(KEYS.private_pem, audience=AUDIENCE_BATCHES).mint(CLAIMS.caller)
    assert CallerTokenVerifier(KEYS.public_pem, AUDIENCE_BATCHES).verify(word) == CLAIMS.caller
    with pytest.raises(TokenInvalid):
        CallerTokenVerifier(KEYS.public_pem).verify(word)
    with pytest.raises(TokenInvalid):
        BatchTokenVerifier(KEYS.public_pem).verify(word)
