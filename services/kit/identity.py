"""Who calls, and for whom: callers' own tokens, the gateway's word to the runtime, and run tokens.

SignalboxError
├── Unauthenticated: TokenMissing, TokenInvalid (KeyUnknown), TokenExpired
├── StaleEpoch
├── ToolNotAllowed
└── WritesNotAllowed
"""

from __future__ import annotations

import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import grpc
import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from services.kit.errors import SignalboxError
from services.kit.jwks import Jwks, UnknownKeyId
from services.kit.names import (
    AUDIENCE_ANY_SERVICE,
    AUDIENCE_RUNTIME,
    AUTHORIZATION,
    BEARER,
    ISSUER_GATEWAY,
    ISSUER_RUNTIME,
)

EDDSA: Final = "EdDSA"
# Only asymmetric algorithms: with a shared-secret one, a public key could pass for the secret.
CALLER_ALGORITHMS: Final = ("EdDSA", "ES256", "RS256")
MAX_TOKEN_LENGTH: Final = 8192
LONGEST_NAME: Final = 128
CLOCK_SKEW_S: Final = 5
# Long enough for the calls of a run, short enough for a key that is taken back.
VERIFIED_FOR_S: Final = 30
VERIFIED_MOST: Final = 2048
MINTED_MOST: Final = 2048
# However long a run token says it lives, an older one is not known; its holder has had a new one for minutes.
LONGEST_RUN_TOKEN_LIFE_S: Final = 600
RUNS_REMEMBERED: Final = 10_000
MOST_PASSED_CLAIMS: Final = 16
_PUBLIC_KEY: Final = re.compile(r"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)


class Unauthenticated(SignalboxError):
    """A call whose caller is not known."""

    reason = "UNAUTHENTICATED"
    code = grpc.StatusCode.UNAUTHENTICATED


class TokenMissing(Unauthenticated):
    """No bearer token came with the call."""

    reason = "TOKEN_MISSING"


class TokenInvalid(Unauthenticated):
    """The token is malformed, signed by another key, or meant for somebody else."""

    reason = "TOKEN_INVALID"


class KeyUnknown(TokenInvalid):
    """The token names a key that is not known, or not yet; to its caller as invalid as any other."""


class TokenExpired(Unauthenticated):
    """The token was good once."""

    reason = "TOKEN_EXPIRED"


class StaleEpoch(SignalboxError):
    """The call's epoch is not the run's any more: another replica has claimed it."""

    reason = "STALE_EPOCH"
    code = grpc.StatusCode.FAILED_PRECONDITION


class ToolNotAllowed(SignalboxError):
    """The run token does not name the tool."""

    reason = "TOOL_NOT_ALLOWED"
    code = grpc.StatusCode.PERMISSION_DENIED


class WritesNotAllowed(SignalboxError):
    """The run token is not for tools that write."""

    reason = "WRITES_NOT_ALLOWED"
    code = grpc.StatusCode.PERMISSION_DENIED


@dataclass(frozen=True)
class Caller:
    """Who a run acts for; `claims` are further words of their token that are passed on, by name."""

    subject: str
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class RunClaims:
    """What a run token says: the caller, the run, its claim's epoch and the tools it may call.

    `writes` is said to nodes that act alone: without it, tools that write refuse the call.
    """

    caller: Caller
    run_id: str
    agent: str
    tools: frozenset[str]
    epoch: int
    writes: bool = False


@dataclass(frozen=True)
class KeyPair:
    """An Ed25519 key pair, PEM."""

    private_pem: str
    public_pem: str


def generate_keypair() -> KeyPair:
    """Makes a new Ed25519 key pair."""
    private = Ed25519PrivateKey.generate()
    private_pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public_pem = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return KeyPair(private_pem.decode(), public_pem.decode())


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


def public_keys(pem: str) -> tuple[PublicKeyTypes, ...]:
    """Reads one public key or several, one after another: while keys are rotated, the one before is good as well.

    Raises ValueError when there is none, or one that can't be read.
    """
    blocks = _PUBLIC_KEY.findall(pem)
    # What is no key at all is for the parser to complain of.
    return tuple(serialization.load_pem_public_key(block.encode()) for block in blocks or [pem])


class _VerifiedTokens:
    """Claims of tokens whose signature has just been checked: a run's calls, or a caller's, carry the same token."""

    def __init__(self) -> None:
        self._claims: OrderedDict[str, tuple[float, dict[str, Any]]] = OrderedDict()

    def claims(self, token: str, verify: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Returns a token's claims, verified now or less than VERIFIED_FOR_S ago, and not expired since."""
        _bound(token)
        verified_at, claims = self._claims.get(token, (0.0, None))
        now = time.time()
        if claims is not None and now - verified_at < VERIFIED_FOR_S and now < claims["exp"]:
            return claims
        self._claims.pop(token, None)
        claims = verify()
        self._claims[token] = (now, claims)
        if len(self._claims) > VERIFIED_MOST:
            self._claims.popitem(last=False)
        return claims


class IssuerTokenVerifier:
    """Verifies the tokens that callers bring to the gateway, from the issuer that it trusts."""

    def __init__(
        self,
        jwks: Jwks,
        *,
        issuer: str,
        audience: str,
        roles_claim: str = "roles",
        passed_claims: Collection[str] = (),
    ) -> None:
        self._jwks = jwks
        self._issuer = issuer
        self._audience = audience
        self._roles_claim = roles_claim
        self._passed_claims = passed_claims
        self._verified = _VerifiedTokens()

    def verify(self, token: str) -> Caller:
        """Returns the caller a token names, with the claims that are passed on.

        Raises TokenInvalid, also for such a claim that is no name, KeyUnknown, TokenExpired.
        """
        claims = self._verified.claims(token, lambda: self._verify(token))
        passed = {name: claims[name] for name in self._passed_claims if name in claims}
        return replace(_caller(claims, self._roles_claim), claims=_passed_claims(passed))

    def _verify(self, token: str) -> dict[str, Any]:
        try:
            key = self._jwks.signing_key(token)
        except UnknownKeyId as error:
            raise KeyUnknown("the token is not signed by a key of this platform's issuer") from error
        except jwt.PyJWTError as error:
            raise TokenInvalid("the token is not signed by a key of this platform's issuer") from error
        if key.algorithm_name not in CALLER_ALGORITHMS:
            raise TokenInvalid("the token's key uses an algorithm that is not accepted")
        return _decode(token, [key.key], key.algorithm_name, issuer=self._issuer, audience=self._audience)


class _Minter:
    def __init__(self, private_pem: str, *, issuer: str, ttl_s: int) -> None:
        self._key = serialization.load_pem_private_key(private_pem.encode(), password=None)
        self._issuer = issuer
        self._ttl_s = ttl_s

    def _mint(self, caller: Caller, audience: str | list[str], **claims: Any) -> str:
        now = int(time.time())
        payload = {
            "iss": self._issuer, "aud": audience, "sub": caller.subject, "roles": sorted(caller.roles),
            "iat": now, "exp": now + self._ttl_s, **claims,
        }  # fmt: skip
        return jwt.encode(payload, self._key, algorithm=EDDSA)  # type: ignore[arg-type]


class CallerTokenMinter(_Minter):
    """Mints caller tokens: the gateway's word to the runtime about who calls."""

    def __init__(self, private_pem: str, *, ttl_s: int = 60) -> None:
        super().__init__(private_pem, issuer=ISSUER_GATEWAY, ttl_s=ttl_s)
        self._minted: OrderedDict[Caller, tuple[float, str]] = OrderedDict()

    def mint(self, caller: Caller) -> str:
        """Returns a token that names the caller, and says what claims of theirs are passed on.

        It may have been handed out before, with more than half its life to go: to sign and verify one takes longer
        than most calls that carry it.
        """
        now = time.time()
        minted_at, token = self._minted.get(caller, (-math.inf, ""))
        if not 0 <= now - minted_at < self._ttl_s / 2:
            token = self._mint(caller, AUDIENCE_RUNTIME, claims=dict(caller.claims))
            self._minted.pop(caller, None)
            self._minted[caller] = (now, token)
            if len(self._minted) > MINTED_MOST:
                self._minted.popitem(last=False)
        return token


class CallerTokenVerifier:
    """Verifies caller tokens; `public_pem` as `public_keys` reads it."""

    def __init__(self, public_pem: str) -> None:
        self._keys = public_keys(public_pem)
        self._verified = _VerifiedTokens()

    def verify(self, token: str) -> Caller:
        """Returns the caller a token names. Raises TokenInvalid, TokenExpired."""
        claims = self._verified.claims(
            token, lambda: _decode(token, self._keys, EDDSA, issuer=ISSUER_GATEWAY, audience=AUDIENCE_RUNTIME)
        )
        return replace(_caller(claims, "roles"), claims=_passed_claims(claims.get("claims", {})))


class RunTokenMinter(_Minter):
    """Mints run tokens: what a run's calls to guard, evaluator and executors carry, each token for one of them."""

    def __init__(self, private_pem: str, *, ttl_s: int = 300) -> None:
        super().__init__(private_pem, issuer=ISSUER_RUNTIME, ttl_s=ttl_s)

    def mint(self, claims: RunClaims, audience: str) -> str:
        """Returns a token that says the claims to one service."""
        return self._mint(
            # Services of the last release look for the first; those of this one for their own.
            claims.caller, [AUDIENCE_ANY_SERVICE, audience], run_id=claims.run_id, agent=claims.agent,
            tools=sorted(claims.tools), epoch=claims.epoch, writes=claims.writes,
            claims=dict(claims.caller.claims),
        )  # fmt: skip


class RunTokenVerifier:
    """Verifies the run tokens that are for one service, and remembers which claim of a run was the latest to call.

    `public_pem` as `public_keys` reads it.
    """

    def __init__(self, public_pem: str, audience: str) -> None:
        self._keys = public_keys(public_pem)
        self._audience = audience
        self._verified = _VerifiedTokens()
        self._epochs: OrderedDict[str, int] = OrderedDict()

    def verify(self, token: str) -> RunClaims:
        """Returns what a token says. Raises TokenInvalid, TokenExpired, StaleEpoch."""
        claims = self._verified.claims(token, lambda: self._verify(token))
        if time.time() - claims["iat"] > LONGEST_RUN_TOKEN_LIFE_S:
            raise TokenExpired("the run token is too old; its run has a newer one")
        run_id, agent, tools, epoch = (claims.get(name) for name in ("run_id", "agent", "tools", "epoch"))
        well_formed = (
            isinstance(run_id, str) and isinstance(agent, str) and isinstance(epoch, int) and _is_strings(tools)
        )
        if not well_formed:
            raise TokenInvalid("the run token lacks a claim")
        caller = replace(_caller(claims, "roles"), claims=_passed_claims(claims.get("claims", {})))
        writes = claims.get("writes", False) is True
        said = RunClaims(caller, str(run_id), str(agent), frozenset(tools or ()), int(epoch or 0), writes)
        self._check_epoch(said)
        return said

    def _verify(self, token: str) -> dict[str, Any]:
        claims = _decode(
            token, self._keys, EDDSA, issuer=ISSUER_RUNTIME, audience=[self._audience, AUDIENCE_ANY_SERVICE]
        )
        # A runtime of the last release names nothing but the audience that all services had; see ADR 0016.
        if claims["aud"] not in (AUDIENCE_ANY_SERVICE, [AUDIENCE_ANY_SERVICE]) and self._audience not in claims["aud"]:
            raise TokenInvalid("the run token is for another service")
        if type(claims["iat"]) not in (int, float):
            raise TokenInvalid("the token's time of issue is not a number")
        return claims

    def _check_epoch(self, said: RunClaims) -> None:
        latest = self._epochs.get(said.run_id, said.epoch)
        if said.epoch < latest:
            raise StaleEpoch("another replica has claimed the run since this token was minted")
        self._epochs[said.run_id] = said.epoch
        self._epochs.move_to_end(said.run_id)
        if len(self._epochs) > RUNS_REMEMBERED:
            self._epochs.popitem(last=False)


def authorize_writing(claims: RunClaims, tool: str) -> None:
    """Checks that a run token is for a node that acts. Raises WritesNotAllowed."""
    if not claims.writes:
        raise WritesNotAllowed(f"the tool {tool!r} writes, and this token is for reading", metadata={"tool": tool})


def authorize_tool(claims: RunClaims, tool: str) -> None:
    """Checks that a run may call a tool. Raises ToolNotAllowed."""
    if tool not in claims.tools:
        raise ToolNotAllowed(f"this run may not call the tool {tool!r}", metadata={"tool": tool})


def _bound(token: str) -> None:
    if len(token) > MAX_TOKEN_LENGTH:
        raise TokenInvalid(f"the token is longer than {MAX_TOKEN_LENGTH} characters")
    if not token.isascii():
        raise TokenInvalid("the token has characters that no token has")


def _decode(
    token: str, keys: Sequence[Any], algorithm: str, *, issuer: str, audience: str | list[str]
) -> dict[str, Any]:
    try:
        claims = _signed_claims(
            token, keys, algorithms=[algorithm], issuer=issuer, audience=audience, leeway=CLOCK_SKEW_S,
            options={"require": ["exp", "iat", "sub", "aud", "iss"]},
        )  # fmt: skip
    except jwt.ExpiredSignatureError as error:
        raise TokenExpired("the token has expired; get a new one") from error
    except jwt.PyJWTError as error:
        raise TokenInvalid("the token is not valid here") from error
    # PyJWT reads "1700000000" as a time too; what is compared later is the claim itself.
    if type(claims["exp"]) not in (int, float):
        raise TokenInvalid("the token's expiry is not a number")
    return claims


def _signed_claims(token: str, keys: Sequence[Any], **checks: Any) -> dict[str, Any]:
    *others, last = keys
    for key in others:
        with suppress(jwt.InvalidSignatureError):
            return jwt.decode(token, key, **checks)
    return jwt.decode(token, last, **checks)


def _caller(claims: dict[str, Any], roles_claim: str) -> Caller:
    roles = claims.get(roles_claim, [])
    subject = claims["sub"]
    if not _is_name(subject) or not _is_strings(roles) or not all(map(_is_name, roles)):
        raise TokenInvalid("the token's subject or roles are malformed")
    return Caller(subject, frozenset(roles))


def _passed_claims(claims: object) -> Mapping[str, str]:
    if not isinstance(claims, dict) or len(claims) > MOST_PASSED_CLAIMS:
        raise TokenInvalid("the claims of the caller that are passed on are malformed")
    if not all(_is_name(name) and _is_name(value) for name, value in claims.items()):
        raise TokenInvalid("a claim of the caller that is passed on is no name: up to 128 printable characters")
    return claims


def _is_name(value: object) -> bool:
    """Whether a value can stand in logs, prompts and databases as it is: no control or invisible characters."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable()


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and len(value) <= 64 and all(isinstance(item, str) for item in value)
