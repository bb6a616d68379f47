"""Key pairs that the platform's own tokens are signed with, and public keys in PEM."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

EDDSA: Final = "EdDSA"
_PUBLIC_KEY: Final = re.compile(r"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)


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


def public_keys(pem: str) -> tuple[PublicKeyTypes, ...]:
    """Reads one public key or several, one after another: while keys are rotated, the one before is good as well.

    Raises ValueError when there is none, or one that can't be read.
    """
    blocks = _PUBLIC_KEY.findall(pem)
    # What is not a key at all is for the parser to complain of.
    return tuple(serialization.load_pem_public_key(block.encode()) for block in blocks or [pem])
