"""What the claims of a token say of its caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from services.kit.identity.caller import Caller, TokenInvalid

LONGEST_NAME: Final = 128
MOST_PASSED_CLAIMS: Final = 16


def caller_of(claims: Mapping[str, Any], roles_claim: str, passed: object) -> Caller:
    """Returns the caller that claims name, with those of their claims that are passed on. Raises TokenInvalid.

    `roles_claim` is a claim's name, or leads with dots into one (`realm_access.roles`). It holds a list, or words in
    one text as OAuth's `scope` does (RFC 8693, 4.2).
    """
    roles, subject = _roles(claims, roles_claim), claims["sub"]
    if not _is_name(subject) or not is_strings(roles) or not all(map(_is_name, roles)):
        raise TokenInvalid("the token's subject or roles are malformed")
    return Caller(subject, frozenset(roles), _passed_claims(passed))


def has_claim(claims: Mapping[str, Any], path: str) -> bool:
    """Tells whether there is a claim at a path, as `caller_of` takes one."""
    found: Any = claims
    for name in [path] if path in claims else path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return False
        found = found[name]
    return True


def _roles(claims: Mapping[str, Any], path: str) -> Any:
    found: Any = claims
    # Names that are URLs have dots of their own.
    for name in [path] if path in claims else path.split("."):
        if not isinstance(found, Mapping):
            return None
        if name not in found:
            return []
        found = found[name]
    return found.split() if isinstance(found, str) else found


def _passed_claims(claims: object) -> Mapping[str, str]:
    if not isinstance(claims, dict) or len(claims) > MOST_PASSED_CLAIMS:
        raise TokenInvalid("the claims of the caller that are passed on are malformed")
    if not all(_is_name(name) and _is_name(value) for name, value in claims.items()):
        raise TokenInvalid("a claim of the caller that is passed on is not a name: up to 128 printable characters")
    return claims


def _is_name(value: object) -> bool:
    """Whether a value can stand in logs, prompts and databases as it is: no control or invisible characters."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable()


def is_strings(value: object) -> bool:
    """Whether a value is a list of strings, and not a long one."""
    return isinstance(value, list) and len(value) <= 64 and all(isinstance(item, str) for item in value)
