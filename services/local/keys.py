"""Development keys: made fresh at every start, held in files that only their owner can read."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from services.kit.identity.keys import EDDSA, KeyPair, generate_keypair

DEVELOPMENT_ISSUER = "signalbox-development"
DEVELOPMENT_AUDIENCE = "signalbox"
KEY_ID = "development"
TOKEN_TTL_S = 3600


@dataclass(frozen=True)
class KeyFiles:
    """A key pair's two PEM files."""

    private: Path
    public: Path


@dataclass(frozen=True)
class DevelopmentKeys:
    """Every key of a local platform.

    `signing_key` signs the tokens that callers bring and `jwks` is its public half as the gateway reads it;
    `gateway` signs the gateway's word to the runtime, `runs` the runtime's run tokens, `batches` the tokens of batches.
    """

    signing_key: Path
    jwks: Path
    gateway: KeyFiles
    runs: KeyFiles
    batches: KeyFiles

    @classmethod
    def create(cls, directory: Path) -> DevelopmentKeys:
        """Makes new keys and writes them into a directory that only the owner may enter."""
        callers = generate_keypair()
        signing_key = _write(directory / "callers.pem", callers.private_pem)
        jwks = _write(directory / "jwks.json", json.dumps({"keys": [public_jwk(callers)]}))
        return cls(signing_key, jwks, *(_write_pair(directory, name) for name in ("gateway", "runs", "batches")))


def public_jwk(pair: KeyPair) -> dict[str, str]:
    """A key pair's public half as a JSON Web Key (RFC 8037)."""
    key = serialization.load_pem_public_key(pair.public_pem.encode())
    if not isinstance(key, Ed25519PublicKey):
        raise TypeError(f"expected an Ed25519 key, got {type(key).__name__}")
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    x = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    return {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": KEY_ID, "alg": EDDSA, "use": "sig"}


def mint_issuer_token(
    signing_key: Path,
    *,
    subject: str,
    roles: Iterable[str],
    ttl_s: int = TOKEN_TTL_S,
    issuer: str,
    audience: str,
    claims: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Signs a caller's token with a development key; `claims` are others than the platform's own."""
    now = int(time.time())
    said = {
        **claims,
        "iss": issuer,
        "aud": audience,
        "sub": subject,
        "roles": sorted(roles),
        "iat": now,
        "exp": now + ttl_s,
    }
    return jwt.encode(said, signing_key.read_text(encoding="ascii"), algorithm=EDDSA, headers={"kid": KEY_ID})


def _write_pair(directory: Path, name: str) -> KeyFiles:
    pair = generate_keypair()
    return KeyFiles(
        _write(directory / f"{name}.pem", pair.private_pem), _write(directory / f"{name}.pub.pem", pair.public_pem)
    )


def _write(path: Path, text: str) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path
