"""Tokens: what is refused, with which code, and how long a verified one is believed."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from services.kit import identity
from services.kit.identity import (
    Caller,
    CallerTokenMinter,
    CallerTokenVerifier,
    GatewayTokenVerifier,
    RunClaims,
    RunTokenMinter,
    RunTokenVerifier,
    TokenExpired,
    TokenInvalid,
    TokenMissing,
    ToolNotAllowed,
    Unauthenticated,
    authorize_tool,
    bearer_metadata,
    bearer_token,
    generate_keypair,
)
from services.kit.jwks import JwksDocument

KEYS, OTHER = generate_keypair(), generate_keypair()
ISSUER, AUDIENCE = "https://login.example/", "signalbox"
CLAIMS = RunClaims(Caller("27", frozenset({"reader"})), "run-1", "data_chat", frozenset({"execute_db_query"}), 3)


def jwks() -> JwksDocument:
    public = serialization.load_pem_public_key(KEYS.public_pem.encode())
    key = json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(public))  # type: ignore[arg-type]
    return JwksDocument(json.dumps({"keys": [{**key, "kid": "k1", "use": "sig", "alg": "EdDSA"}]}))


def verifier() -> CallerTokenVerifier:
    return CallerTokenVerifier(jwks(), issuer=ISSUER, audience=AUDIENCE)


def token(
    *, key: Any = KEYS.private_pem, algorithm: str = "EdDSA", kid: str = "k1", drop: str = "", **changed: Any
) -> str:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "27", "roles": ["reader"], "iat": now, "exp": now + 60, **changed}
    claims.pop(drop, None)
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})


def forged(header: dict[str, Any], good: str) -> str:
    """A token's claims under another header, signed by nobody."""
    encoded = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    return f"{encoded}.{good.split('.')[1]}."


def hs256_with_public_key() -> str:
    """Signed with the public key as if it were a shared secret; PyJWT refuses to make it, an attacker does not."""
    import hashlib
    import hmac

    header = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "k1", "typ": "JWT"}).encode()).rstrip(b"=")
    signed = header + b"." + token().split(".")[1].encode()
    mac = hmac.new(KEYS.public_pem.encode(), signed, hashlib.sha256).digest()
    return (signed + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


def tampered() -> str:
    header, claims, signature = token().split(".")
    read = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    changed = base64.urlsafe_b64encode(json.dumps({**read, "sub": "31"}).encode()).rstrip(b"=").decode()
    return f"{header}.{changed}.{signature}"


def test_a_good_token_names_its_caller() -> None:
    assert verifier().verify(token()) == Caller("27", frozenset({"reader"}))


REFUSED: dict[str, tuple[Callable[[], str], type[Unauthenticated]]] = {
    "empty": (lambda: "", TokenInvalid),
    "no token at all": (lambda: "a.b.c", TokenInvalid),
    "expired": (lambda: token(iat=int(time.time()) - 120, exp=int(time.time()) - 60), TokenExpired),
    "not valid yet": (lambda: token(nbf=int(time.time()) + 60), TokenInvalid),
    "wrong audience": (lambda: token(aud="other"), TokenInvalid),
    "wrong issuer": (lambda: token(iss="https://evil.example/"), TokenInvalid),
    "wrong key": (lambda: token(key=OTHER.private_pem), TokenInvalid),
    "unknown key id": (lambda: token(kid="k2"), TokenInvalid),
    "no expiry": (lambda: token(drop="exp"), TokenInvalid),
    "no subject": (lambda: token(drop="sub"), TokenInvalid),
    "empty subject": (lambda: token(sub=""), TokenInvalid),
    "long subject": (lambda: token(sub="u" * 129), TokenInvalid),
    "subject with a NUL": (lambda: token(sub="27\x00"), TokenInvalid),
    "subject of two lines": (lambda: token(sub="27\nadmin"), TokenInvalid),
    "subject with an escape sequence": (lambda: token(sub="\x1b[2J27"), TokenInvalid),
    "subject that looks like another": (lambda: token(sub="27\u200b"), TokenInvalid),
    "subject that no encoding has": (lambda: token(sub="\ud800"), TokenInvalid),
    "role with a NUL": (lambda: token(roles=["admin\x00"]), TokenInvalid),
    "role that no encoding has": (lambda: token(roles=["\ud800"]), TokenInvalid),
    "expiry in words": (lambda: token(exp=str(int(time.time()) + 60)), TokenInvalid),
    "characters that no encoding has": (lambda: "\ud800.a.b", TokenInvalid),
    "roles that are no list": (lambda: token(roles="admin"), TokenInvalid),
    "roles that are no words": (lambda: token(roles=[1]), TokenInvalid),
    "alg none": (lambda: forged({"alg": "none", "kid": "k1"}, token()), TokenInvalid),
    "HS256 with the public key": (hs256_with_public_key, TokenInvalid),
    "tampered": (tampered, TokenInvalid),
    "oversized": (lambda: token(note="x" * 9000), TokenInvalid),
}


@pytest.mark.parametrize(("make", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_token_is_refused(make: Callable[[], str], error: type[Unauthenticated]) -> None:
    with pytest.raises(error) as caught:
        verifier().verify(make())
    assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED
    assert type(caught.value) is error


def test_the_clocks_of_two_machines_may_differ_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    over = token(exp=int(time.time()) - 60)
    with pytest.raises(TokenExpired):
        verifier().verify(over)
    monkeypatch.setattr(identity, "CLOCK_SKEW_S", 3600)  # more than this machine may stand still meanwhile
    assert verifier().verify(over).subject == "27"


def test_a_verified_token_is_believed_until_it_expires_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, good = verifier(), token(exp=int(time.time()) + 600)
    assert checks.verify(good).subject == "27"
    later = time.time() + 1200
    monkeypatch.setattr(identity.time, "time", lambda: later)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        asked: list[str] = []

        def refuse(*_: Any, **__: Any) -> None:
            asked.append("decode")
            raise TokenExpired("expired")

        patch.setattr(identity, "_decode", refuse)
        with pytest.raises(TokenExpired):
            checks.verify(good)
    assert asked == ["decode"]


def test_a_key_that_is_taken_back_stops_being_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, good = verifier(), token(exp=int(time.time()) + 3600)
    checks.verify(good)
    monkeypatch.setattr(checks, "_jwks", JwksDocument('{"keys": [' + _other_jwk() + "]}"))
    assert checks.verify(good).subject == "27"  # within the time that a verified token is believed
    later = time.time() + identity.VERIFIED_FOR_S + 1
    monkeypatch.setattr(identity.time, "time", lambda: later)  # type: ignore[attr-defined]
    with pytest.raises(TokenInvalid):
        checks.verify(good)


def _other_jwk() -> str:
    public = serialization.load_pem_public_key(OTHER.public_pem.encode())
    return json.dumps({**json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(public)), "kid": "k2"})  # type: ignore[arg-type]


def test_a_run_token_says_what_it_was_minted_for() -> None:
    assert RunTokenVerifier(KEYS.public_pem).verify(RunTokenMinter(KEYS.private_pem).mint(CLAIMS)) == CLAIMS


def test_a_token_for_one_service_is_no_token_for_another() -> None:
    run, word = RunTokenMinter(KEYS.private_pem).mint(CLAIMS), CallerTokenMinter(KEYS.private_pem).mint(CLAIMS.caller)
    assert GatewayTokenVerifier(KEYS.public_pem).verify(word) == CLAIMS.caller
    with pytest.raises(TokenInvalid):
        GatewayTokenVerifier(KEYS.public_pem).verify(run)
    with pytest.raises(TokenInvalid):
        RunTokenVerifier(KEYS.public_pem).verify(word)


def test_a_tool_that_the_run_token_does_not_name_is_refused() -> None:
    authorize_tool(CLAIMS, "execute_db_query")
    with pytest.raises(ToolNotAllowed) as caught:
        authorize_tool(CLAIMS, "delete_node")
    assert caught.value.code is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    "metadata",
    [None, (), (("authorization", "Basic x"),), (("x-token", "Bearer x"),), (("authorization", b"Bearer x"),)],
)
def test_a_call_without_a_bearer_token_is_told_so(metadata: Any) -> None:
    with pytest.raises(TokenMissing):
        bearer_token(metadata)


@pytest.mark.parametrize("second", ["Bearer other", "Bearer abc", "Basic x"])
def test_a_call_that_names_its_caller_twice_is_refused(second: str) -> None:
    """Whoever stands in between may have read the other one."""
    with pytest.raises(TokenInvalid):
        bearer_token([("authorization", "Bearer abc"), ("authorization", second)])


def test_names_of_any_language_may_be_subjects() -> None:
    assert (
        verifier().verify(token(sub="Zo\u00eb \u5f20 +1@harbour.example")).subject
        == "Zo\u00eb \u5f20 +1@harbour.example"
    )


def test_a_bearer_token_is_found_where_it_is_put() -> None:
    assert bearer_token([("x", "y"), bearer_metadata("abc")]) == "abc"
