"""Who calls, and for whom: callers' own tokens, the gateway's word to the runtime, and run tokens.

SignalboxError
├── Unauthenticated: TokenMissing, TokenInvalid, TokenExpired
└── ToolNotAllowed
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import grpc
import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from services.kit.errors import SignalboxError
from services.kit.jwks import Jwks
from services.kit.names import (
    AUDIENCE_EXECUTOR,
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


class TokenExpired(Unauthenticated):
    """The token was good once."""

    reason = "TOKEN_EXPIRED"


class ToolNotAllowed(SignalboxError):
    """The run token does not name the tool."""

    reason = "TOOL_NOT_ALLOWED"
    code = grpc.StatusCode.PERMISSION_DENIED


@dataclass(frozen=True)
class Caller:
    """Who a run acts for."""

    subject: str
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RunClaims:
    """What a run token says: the caller, the run, its claim's epoch and the tools it may call."""

    caller: Caller
    run_id: str
    agent: str
    tools: frozenset[str]
    epoch: int


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
    if not given or not isinstance(given[0], str) or not given[0].startswith(BEARER):
        raise TokenMissing("this call needs a bearer token in the metadata key 'authorization'")
    return given[0].removeprefix(BEARER)


def bearer_metadata(token: str) -> tuple[str, str]:
    """Puts a token into the metadata entry that `bearer_token` reads."""
    return AUTHORIZATION, BEARER + token


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


class CallerTokenVerifier:
    """Verifies the tokens that callers bring to the gateway."""

    def __init__(self, jwks: Jwks, *, issuer: str, audience: str, roles_claim: str = "roles") -> None:
        self._jwks = jwks
        self._issuer = issuer
        self._audience = audience
        self._roles_claim = roles_claim
        self._verified = _VerifiedTokens()

    def verify(self, token: str) -> Caller:
        """Returns the caller a token names; blocks while new keys are fetched. Raises TokenInvalid, TokenExpired."""
        return _caller(self._verified.claims(token, lambda: self._verify(token)), self._roles_claim)

    def _verify(self, token: str) -> dict[str, Any]:
        try:
            key = self._jwks.signing_key(token)
        except jwt.PyJWTError as error:
            raise TokenInvalid("the token is not signed by a key of this platform's issuer") from error
        if key.algorithm_name not in CALLER_ALGORITHMS:
            raise TokenInvalid("the token's key uses an algorithm that is not accepted")
        return _decode(token, key.key, key.algorithm_name, issuer=self._issuer, audience=self._audience)


class _Minter:
    def __init__(self, private_pem: str, *, issuer: str, audience: str, ttl_s: int) -> None:
        self._key = serialization.load_pem_private_key(private_pem.encode(), password=None)
        self._issuer = issuer
        self._audience = audience
        self._ttl_s = ttl_s

    def _mint(self, caller: Caller, **claims: Any) -> str:
        now = int(time.time())
        payload = {
            "iss": self._issuer, "aud": self._audience, "sub": caller.subject, "roles": sorted(caller.roles),
            "iat": now, "exp": now + self._ttl_s, **claims,
        }  # fmt: skip
        return jwt.encode(payload, self._key, algorithm=EDDSA)  # type: ignore[arg-type]


class CallerTokenMinter(_Minter):
    """Mints the gateway's word to the runtime about who calls."""

    def __init__(self, private_pem: str, *, ttl_s: int = 60) -> None:
        super().__init__(private_pem, issuer=ISSUER_GATEWAY, audience=AUDIENCE_RUNTIME, ttl_s=ttl_s)

    def mint(self, caller: Caller) -> str:
        """Returns a token that names the caller."""
        return self._mint(caller)


class GatewayTokenVerifier:
    """Verifies the gateway's word about who calls."""

    def __init__(self, public_pem: str) -> None:
        self._key = serialization.load_pem_public_key(public_pem.encode())
        self._verified = _VerifiedTokens()

    def verify(self, token: str) -> Caller:
        """Returns the caller a token names. Raises TokenInvalid, TokenExpired."""
        claims = self._verified.claims(
            token, lambda: _decode(token, self._key, EDDSA, issuer=ISSUER_GATEWAY, audience=AUDIENCE_RUNTIME)
        )
        return _caller(claims, "roles")


class RunTokenMinter(_Minter):
    """Mints run tokens: what a run's calls to guard, evaluator and executors carry."""

    def __init__(self, private_pem: str, *, ttl_s: int = 900) -> None:
        super().__init__(private_pem, issuer=ISSUER_RUNTIME, audience=AUDIENCE_EXECUTOR, ttl_s=ttl_s)

    def mint(self, claims: RunClaims) -> str:
        """Returns a token that says the claims."""
        return self._mint(
            claims.caller, run_id=claims.run_id, agent=claims.agent, tools=sorted(claims.tools), epoch=claims.epoch
        )


def renewed(mint: Callable[[], str], *, every_s: float = 300) -> Callable[[], str]:
    """Returns a function that mints a token when the last one is old, and else returns that one."""
    last, minted_at = "", 0.0

    def token() -> str:
        nonlocal last, minted_at
        if not last or time.monotonic() - minted_at > every_s:
            last, minted_at = mint(), time.monotonic()
        return last

    return token


class RunTokenVerifier:
    """Verifies run tokens."""

    def __init__(self, public_pem: str) -> None:
        self._key = serialization.load_pem_public_key(public_pem.encode())
        self._verified = _VerifiedTokens()

    def verify(self, token: str) -> RunClaims:
        """Returns what a token says. Raises TokenInvalid, TokenExpired."""
        claims = self._verified.claims(
            token, lambda: _decode(token, self._key, EDDSA, issuer=ISSUER_RUNTIME, audience=AUDIENCE_EXECUTOR)
        )
        run_id, agent, tools, epoch = (claims.get(name) for name in ("run_id", "agent", "tools", "epoch"))
        well_formed = (
            isinstance(run_id, str) and isinstance(agent, str) and isinstance(epoch, int) and _is_strings(tools)
        )
        if not well_formed:
            raise TokenInvalid("the run token lacks a claim")
        return RunClaims(_caller(claims, "roles"), str(run_id), str(agent), frozenset(tools or ()), int(epoch or 0))


def authorize_tool(claims: RunClaims, tool: str) -> None:
    """Checks that a run may call a tool. Raises ToolNotAllowed."""
    if tool not in claims.tools:
        raise ToolNotAllowed(f"this run may not call the tool {tool!r}", metadata={"tool": tool})


def _bound(token: str) -> None:
    if len(token) > MAX_TOKEN_LENGTH:
        raise TokenInvalid(f"the token is longer than {MAX_TOKEN_LENGTH} characters")
    if not token.isascii():
        raise TokenInvalid("the token has characters that no token has")


def _decode(token: str, key: Any, algorithm: str, *, issuer: str, audience: str) -> dict[str, Any]:
    try:
        claims = jwt.decode(
            token, key, algorithms=[algorithm], issuer=issuer, audience=audience, leeway=CLOCK_SKEW_S,
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


def _caller(claims: dict[str, Any], roles_claim: str) -> Caller:
    roles = claims.get(roles_claim, [])
    subject = claims["sub"]
    if not _is_name(subject) or not _is_strings(roles) or not all(map(_is_name, roles)):
        raise TokenInvalid("the token's subject or roles are malformed")
    return Caller(subject, frozenset(roles))


def _is_name(value: object) -> bool:
    """Whether a value can stand in logs, prompts and databases as it is: no control or invisible characters."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable()


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and len(value) <= 64 and all(isinstance(item, str) for item in value)
