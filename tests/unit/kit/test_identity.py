"""Tokens: what is refused, with which code, and how long a verified one is believed."""

from __future__ import annotations

import base64
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from structlog.testing import capture_logs

from services.kit.identity import run_tokens, signed_tokens
from services.kit.identity.bearer import bearer_metadata, bearer_token
from services.kit.identity.caller import (
    Caller,
    ClocksApart,
    KeyUnknown,
    RunClaims,
    StaleEpoch,
    TokenExpired,
    TokenInvalid,
    TokenMissing,
    ToolNotAllowed,
    Unauthenticated,
    WritesNotAllowed,
    authorize_tool,
    authorize_writing,
)
from services.kit.identity.caller_tokens import CallerTokenMinter, CallerTokenVerifier, IssuerTokenVerifier
from services.kit.identity.jwks import JwksDocument
from services.kit.identity.keys import generate_keypair
from services.kit.identity.run_tokens import RunTokenMinter, RunTokenVerifier
from services.kit.identity.signed_tokens import VERIFIED_FOR_S
from services.kit.telemetry.names import (
    AUDIENCE_CODE_EXECUTOR,
    AUDIENCE_EVALUATOR,
    AUDIENCE_GUARD,
    AUDIENCE_SQL_EXECUTOR,
)

KEYS, OTHER = generate_keypair(), generate_keypair()
ISSUER, AUDIENCE = "https://login.example/", "signalbox"
CLAIMS = RunClaims(Caller("27", frozenset({"reader"})), "run-1", "data_chat", frozenset({"execute_db_query"}), 3)


def jwks() -> JwksDocument:
    public = serialization.load_pem_public_key(KEYS.public_pem.encode())
    key = json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(public))  # type: ignore[arg-type]
    return JwksDocument(json.dumps({"keys": [{**key, "kid": "k1", "use": "sig", "alg": "EdDSA"}]}))


def verifier() -> IssuerTokenVerifier:
    return IssuerTokenVerifier(jwks(), issuer=ISSUER, audience=AUDIENCE)


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
    "unknown key id": (lambda: token(kid="k2"), KeyUnknown),
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
    "roles that are no list": (lambda: token(roles=7), TokenInvalid),
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
    monkeypatch.setattr(signed_tokens, "CLOCK_SKEW_S", 3600)  # more than this machine may stand still meanwhile
    assert verifier().verify(over).subject == "27"


@contextmanager
def clock(monkeypatch: pytest.MonkeyPatch, shift_s: float) -> Iterator[None]:
    """A while in which whoever signs is on a machine whose clock is off."""
    now = time.time()
    with monkeypatch.context() as patch:
        patch.setattr("services.kit.identity.signed_tokens.time.time", lambda: now + shift_s)
        yield


def test_a_token_that_the_platform_made_later_than_now_says_that_clocks_are_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with clock(monkeypatch, 3600):
        run = RunTokenMinter(KEYS.private_pem).mint(CLAIMS, AUDIENCE_GUARD)
        word = CallerTokenMinter(KEYS.private_pem).mint(CLAIMS.caller)
        strangers = CallerTokenMinter(OTHER.private_pem).mint(CLAIMS.caller)
    for verify in (
        lambda: RunTokenVerifier(KEYS.public_pem, AUDIENCE_GUARD).verify(run),
        lambda: CallerTokenVerifier(KEYS.public_pem).verify(word),
    ):
        with pytest.raises(ClocksApart) as caught:
            verify()
        assert (caught.value.code, caught.value.retryable) == (grpc.StatusCode.UNAVAILABLE, True)
    with pytest.raises(TokenInvalid):
        CallerTokenVerifier(KEYS.public_pem).verify(strangers)


def test_a_gateways_word_from_long_ago_is_no_fault_of_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    with clock(monkeypatch, -3600):
        word = CallerTokenMinter(KEYS.private_pem).mint(CLAIMS.caller)
    with pytest.raises(ClocksApart):
        CallerTokenVerifier(KEYS.public_pem).verify(word)


def test_a_verified_token_is_believed_until_it_expires_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, good = verifier(), token(exp=int(time.time()) + 600)
    assert checks.verify(good).subject == "27"
    later = time.time() + 1200
    monkeypatch.setattr(signed_tokens.time, "time", lambda: later)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        asked: list[str] = []

        def refuse(*_: Any, **__: Any) -> None:
            asked.append("decode")
            raise TokenExpired("expired")

        patch.setattr(signed_tokens, "_decode", refuse)
        with pytest.raises(TokenExpired):
            checks.verify(good)
    assert asked == ["decode"]


def test_a_token_that_was_good_a_moment_ago_is_refused_once_it_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also within the time that a verified token is believed without another look."""
    checks, over = verifier(), token(exp=int(time.time()) - 60)
    monkeypatch.setattr(signed_tokens, "CLOCK_SKEW_S", 3600)
    assert checks.verify(over).subject == "27"
    monkeypatch.setattr(signed_tokens, "CLOCK_SKEW_S", 0)
    with pytest.raises(TokenExpired):
        checks.verify(over)


def test_a_key_of_an_algorithm_that_is_not_listed_signs_nothing() -> None:
    """Also when the issuer publishes one, such as a shared secret, by mistake."""
    secret = b"a secret that is not one any more"
    shared = {"kty": "oct", "k": base64.urlsafe_b64encode(secret).rstrip(b"=").decode(), "kid": "k1", "alg": "HS256"}
    checks = IssuerTokenVerifier(JwksDocument(json.dumps({"keys": [shared]})), issuer=ISSUER, audience=AUDIENCE)
    with pytest.raises(TokenInvalid, match="algorithm"):
        checks.verify(token(key=secret, algorithm="HS256"))


def test_a_key_for_encryption_signs_nothing() -> None:
    public = serialization.load_pem_public_key(KEYS.public_pem.encode())
    key = json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(public))  # type: ignore[arg-type]
    for use, known in (("enc", False), ("sig", True)):
        document = json.dumps({"keys": [{**key, "kid": "k1", "use": use, "alg": "EdDSA"}, json.loads(_other_jwk())]})
        checks = IssuerTokenVerifier(JwksDocument(document), issuer=ISSUER, audience=AUDIENCE)
        if known:
            checks.verify(token())
            continue
        with pytest.raises(KeyUnknown):
            checks.verify(token())


def test_a_key_that_is_taken_back_stops_being_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, good = verifier(), token(exp=int(time.time()) + 3600)
    checks.verify(good)
    monkeypatch.setattr(checks, "_jwks", JwksDocument('{"keys": [' + _other_jwk() + "]}"))
    assert checks.verify(good).subject == "27"  # within the time that a verified token is believed
    later = time.time() + signed_tokens.VERIFIED_FOR_S + 1
    monkeypatch.setattr(signed_tokens.time, "time", lambda: later)  # type: ignore[attr-defined]
    with pytest.raises(TokenInvalid):
        checks.verify(good)


def _other_jwk() -> str:
    public = serialization.load_pem_public_key(OTHER.public_pem.encode())
    return json.dumps({**json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(public)), "kid": "k2"})  # type: ignore[arg-type]


def test_a_run_token_says_what_it_was_minted_for() -> None:
    minted = RunTokenMinter(KEYS.private_pem).mint(CLAIMS, AUDIENCE_GUARD)
    assert RunTokenVerifier(KEYS.public_pem, AUDIENCE_GUARD).verify(minted) == CLAIMS


def run_token(audience: object, **changes: object) -> str:
    """A run token with an audience, and claims changed."""
    now = int(time.time())
    claims = {
        "iss": "signalbox-runtime", "aud": audience, "sub": "27", "roles": [], "iat": now, "exp": now + 300,
        "run_id": "r", "agent": "data_chat", "tools": [], "epoch": 1, **changes,
    }  # fmt: skip
    return jwt.encode(claims, KEYS.private_pem, algorithm="EdDSA")


@pytest.mark.parametrize("audience", [AUDIENCE_EVALUATOR, AUDIENCE_SQL_EXECUTOR, AUDIENCE_CODE_EXECUTOR])
def test_a_run_token_for_one_service_is_none_for_another(audience: str) -> None:
    minted = RunTokenMinter(KEYS.private_pem).mint(CLAIMS, AUDIENCE_GUARD)
    with pytest.raises(TokenInvalid):
        RunTokenVerifier(KEYS.public_pem, audience).verify(minted)


@pytest.mark.parametrize("audience", ["signalbox-executor", ["signalbox-executor"]])
def test_a_runtime_of_the_last_release_is_understood(audience: object) -> None:
    """Its tokens name no service; while it is being replaced, every service takes them."""
    assert RunTokenVerifier(KEYS.public_pem, AUDIENCE_GUARD).verify(run_token(audience)).run_id == "r"


def test_a_service_of_the_last_release_understands_these_tokens() -> None:
    """It looks for the audience that all services had, among those that the token names."""
    minted = RunTokenMinter(KEYS.private_pem).mint(CLAIMS, AUDIENCE_GUARD)
    decoded = jwt.decode(
        minted, KEYS.public_pem, algorithms=["EdDSA"],
        issuer="signalbox-runtime", audience="signalbox-executor", leeway=5,
        options={"require": ["exp", "iat", "sub", "aud", "iss"]},
    )  # fmt: skip
    assert (decoded["run_id"], decoded["epoch"]) == (CLAIMS.run_id, CLAIMS.epoch)


@pytest.mark.parametrize("audience", [[], ["signalbox-executor", "signalbox-guards"], "guard", ["signalbox-runtime"]])
def test_other_audiences_are_refused(audience: object) -> None:
    with pytest.raises(TokenInvalid):
        RunTokenVerifier(KEYS.public_pem, AUDIENCE_GUARD).verify(run_token(audience))


def test_an_old_run_token_is_not_known_whatever_life_it_claims() -> None:
    now = int(time.time())
    checks = RunTokenVerifier(KEYS.public_pem, AUDIENCE_GUARD)
    life = run_tokens.LONGEST_RUN_TOKEN_LIFE_S
    checks.verify(run_token(AUDIENCE_GUARD, iat=now - life + 60, exp=now + 86_400))
    with pytest.raises(TokenExpired):
        checks.verify(run_token(AUDIENCE_GUARD, iat=now - life - 1, exp=now + 86_400))


def test_a_run_token_lives_for_minutes() -> None:
    minted = RunTokenMinter(KEYS.private_pem).mint(CLAIMS, AUDIENCE_GUARD)
    claims = jwt.decode(minted, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] <= run_tokens.LONGEST_RUN_TOKEN_LIFE_S


def test_a_run_token_ends_with_its_claim() -> None:
    checks, minter = RunTokenVerifier(KEYS.public_pem, AUDIENCE_GUARD), RunTokenMinter(KEYS.private_pem)
    early, late = (minter.mint(replace(CLAIMS, epoch=epoch), AUDIENCE_GUARD) for epoch in (1, 2))
    other = minter.mint(replace(CLAIMS, run_id="another", epoch=1), AUDIENCE_GUARD)
    for good in (early, late, other, late):
        checks.verify(good)
    with pytest.raises(StaleEpoch):
        checks.verify(early)


def test_tokens_and_first_claims_are_not_kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, minter = RunTokenVerifier(KEYS.public_pem, AUDIENCE_GUARD), RunTokenMinter(KEYS.private_pem)
    runs = [replace(CLAIMS, run_id=f"run {number}", epoch=1) for number in range(300)]

    def kept(tokens: list[str]) -> int:
        for token in tokens:
            checks.verify(token)
        return tracemalloc.get_traced_memory()[0]

    first, *others, last = [minter.mint(run, AUDIENCE_GUARD) for run in runs]
    late = time.time() + 2 * VERIFIED_FOR_S
    tracemalloc.start()
    try:
        before, filled = kept([first]), kept(others)
        monkeypatch.setattr("services.kit.identity.signed_tokens.time.time", lambda: late)
        after = kept([last])
    finally:
        tracemalloc.stop()
    assert after - before < (filled - before) / 10


def test_a_caller_s_token_serves_for_half_its_life_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    minter, checks, start = (
        CallerTokenMinter(KEYS.private_pem, ttl_s=60),
        CallerTokenVerifier(KEYS.public_pem),
        time.time(),
    )
    first = minter.mint(CLAIMS.caller)
    assert minter.mint(replace(CLAIMS.caller)) == first
    others = [
        replace(CLAIMS.caller, subject="another"),
        replace(CLAIMS.caller, roles=frozenset({"another"})),
        replace(CLAIMS.caller, claims={"tenant": "another"}),
    ]
    assert [checks.verify(minter.mint(other)) for other in others] == others
    monkeypatch.setattr("services.kit.identity.caller_tokens.time.time", lambda: start + 29)
    assert minter.mint(CLAIMS.caller) == first
    monkeypatch.setattr("services.kit.identity.caller_tokens.time.time", lambda: start + 31)
    second = minter.mint(CLAIMS.caller)
    monkeypatch.setattr("services.kit.identity.caller_tokens.time.time", lambda: start - 3600)
    assert len({first, second, minter.mint(CLAIMS.caller)}) == 3


def test_a_token_for_one_service_is_no_token_for_another() -> None:
    run = RunTokenMinter(KEYS.private_pem).mint(CLAIMS, AUDIENCE_GUARD)
    word = CallerTokenMinter(KEYS.private_pem).mint(CLAIMS.caller)
    assert CallerTokenVerifier(KEYS.public_pem).verify(word) == CLAIMS.caller
    with pytest.raises(TokenInvalid):
        CallerTokenVerifier(KEYS.public_pem).verify(run)
    with pytest.raises(TokenInvalid):
        RunTokenVerifier(KEYS.public_pem, AUDIENCE_GUARD).verify(word)


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


@pytest.mark.parametrize("given", ["Bearer abc", "bearer abc", "BEARER abc", "bEaReR  abc "])
def test_the_schemes_case_means_nothing(given: str) -> None:
    assert bearer_token([("authorization", given)]) == "abc"


def test_names_of_any_language_may_be_subjects() -> None:
    assert (
        verifier().verify(token(sub="Zo\u00eb \u5f20 +1@harbour.example")).subject
        == "Zo\u00eb \u5f20 +1@harbour.example"
    )


def test_a_bearer_token_is_found_where_it_is_put() -> None:
    assert bearer_token([("x", "y"), bearer_metadata("abc")]) == "abc"


def test_only_a_token_that_says_so_is_for_writing() -> None:
    minter, service = RunTokenMinter(KEYS.private_pem), RunTokenVerifier(KEYS.public_pem, AUDIENCE_SQL_EXECUTOR)
    reading = service.verify(minter.mint(CLAIMS, AUDIENCE_SQL_EXECUTOR))
    with pytest.raises(WritesNotAllowed):
        authorize_writing(reading, "add_node")
    authorize_writing(service.verify(minter.mint(replace(CLAIMS, writes=True), AUDIENCE_SQL_EXECUTOR)), "add_node")
    odd_words: list[object] = ["true", 1, {}, None]
    for number, odd in enumerate(odd_words):
        said = service.verify(run_token(AUDIENCE_SQL_EXECUTOR, run_id=f"odd-{number}", writes=odd))
        with pytest.raises(WritesNotAllowed):
            authorize_writing(said, "add_node")


def test_a_callers_further_claims_are_passed_on() -> None:
    minter, service = RunTokenMinter(KEYS.private_pem), RunTokenVerifier(KEYS.public_pem, AUDIENCE_SQL_EXECUTOR)
    said = replace(CLAIMS, caller=replace(CLAIMS.caller, claims={"tenant": "north"}))
    assert service.verify(minter.mint(said, AUDIENCE_SQL_EXECUTOR)) == said
    for malformed in ({"tenant": ""}, {"tenant": "a\nb"}, {str(number): "x" for number in range(17)}):
        wrong = replace(CLAIMS, caller=replace(CLAIMS.caller, claims=malformed))
        with pytest.raises(TokenInvalid):
            service.verify(minter.mint(wrong, AUDIENCE_SQL_EXECUTOR))


def test_while_keys_are_rotated_tokens_of_either_are_good() -> None:
    before, after, stranger = generate_keypair(), generate_keypair(), generate_keypair()
    both = before.public_pem + after.public_pem
    for pair in (before, after):
        assert CallerTokenVerifier(both).verify(CallerTokenMinter(pair.private_pem).mint(Caller("27"))).subject == "27"
        told = RunTokenVerifier(both, AUDIENCE_GUARD).verify(
            RunTokenMinter(pair.private_pem).mint(CLAIMS, AUDIENCE_GUARD)
        )
        assert told == CLAIMS
    with pytest.raises(TokenInvalid):
        CallerTokenVerifier(both).verify(CallerTokenMinter(stranger.private_pem).mint(Caller("27")))
    with pytest.raises(TokenInvalid):
        CallerTokenVerifier(after.public_pem).verify(CallerTokenMinter(before.private_pem).mint(Caller("27")))
    # What the second key signed and is over is over: it is not taken for signed by another.
    over = CallerTokenMinter(after.private_pem, ttl_s=-60).mint(Caller("27"))
    with pytest.raises(ClocksApart, match="expired"):
        CallerTokenVerifier(both).verify(over)


@pytest.mark.parametrize("text", ["", "no key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_what_is_no_key_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        CallerTokenVerifier(text)


@pytest.mark.parametrize("role", ["r" * 60, "写" * 60])
def test_a_caller_of_whom_more_is_to_be_said_than_calls_can_carry_is_refused_at_once(role: str) -> None:
    """Not behind the gateway, by gRPC's bound on metadata, in words that nobody can make anything of."""
    minter = CallerTokenMinter(KEYS.private_pem)
    few = frozenset(f"{role}{number}" for number in range(9))
    many = frozenset(f"{role}{number}" for number in range(64))
    assert minter.mint(Caller("27", few))
    with pytest.raises(TokenInvalid, match="more roles and claims than can be passed on"):
        minter.mint(Caller("27", many))


def test_a_claim_that_is_read_and_not_there_is_told_of_once() -> None:
    with capture_logs() as told:
        issuers = IssuerTokenVerifier(
            jwks(), issuer=ISSUER, audience=AUDIENCE, roles_claim="realm_access.rolls", passed_claims=("tenant",)
        )
        for subject in ("27", "31"):
            issuers.verify(token(sub=subject, realm_access={"roles": ["operator"]}, tenant="north"))
    [start, missing] = told
    assert (start["roles"], start["passed"]) == ("realm_access.rolls", ["tenant"])
    assert (missing["claim"], missing["log_level"]) == ("realm_access.rolls", "warning")
    assert {"realm_access", "sub"} <= set(missing["there"])
