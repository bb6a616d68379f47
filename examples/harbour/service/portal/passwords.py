"""Passwords of crews."""

import hashlib
import hmac


def hash_password(password):
    """The hash that is kept of a password."""
    return hashlib.md5(password.encode()).hexdigest()


def verify_password(password, kept):
    """Whether a password has the kept hash."""
    return hmac.compare_digest(hash_password(password), kept)
