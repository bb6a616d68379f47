"""Which gateway a command talks to, and as whom."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from services.cli.client import Connection, Tls
from services.cli.endpoint import Endpoint, read_endpoint
from services.cli.errors import CliError, not_running
from services.cli.exit_codes import ExitCode
from services.cli.settings import CliSettings
from services.kit.telemetry.names import ROLE_ADMIN, ROLE_OPERATOR
from services.local.keys import mint_issuer_token

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")  # RFC 6750
# Who looks at runs when the command is not told: on one's own machine, the operator of it.
LOCAL_OPERATOR = "operator"
# Of a development token, which is good for an hour.
RENEW_AFTER_S = 1800.0


@dataclass(frozen=True)
class Identity:
    """Who calls: subject and roles for a development token; empty when a token of one's own says it.

    Where `must_name` is set, one of the two has to say who: the local operator does not stand in.
    """

    subject: str = ""
    roles: tuple[str, ...] = ()
    must_name: bool = False

    @classmethod
    def of(cls, subject: str | None, *, admin: bool, roles: Iterable[str] = (), must_name: bool = False) -> Identity:
        """The identity that a command's options name. Raises CliError when --as names nobody."""
        if subject is not None and not (subject.strip() and subject.isprintable()):
            raise CliError(f"--as {subject!r} names no user", hint="give one, such as --as 27", code=ExitCode.USAGE)
        return cls(subject or "", tuple(sorted({*roles, *([ROLE_ADMIN] if admin else [])})), must_name)


def connect_to(settings: CliSettings, identity: Identity, *, gateway: str = "") -> Connection:
    """Finds the gateway and the token. Raises CliError that says what is missing."""
    endpoint = read_endpoint(settings.runtime_dir)
    address = gateway or settings.gateway or (endpoint.gateway if endpoint else "")
    if not address:
        raise not_running()
    tls = Tls(settings.gateway_ca, settings.tls_cert, settings.tls_key) if settings.gateway_ca else None
    code_roots = endpoint.code_roots if endpoint and endpoint.gateway == address else None
    token = _token(settings, identity, endpoint, address)

    def again() -> str:
        return _token(settings, identity, read_endpoint(settings.runtime_dir), address)

    return Connection(address, token, tls, code_roots, token_source(token, again))


def token_source(first: str, again: Callable[[], str], *, renew_after_s: float = RENEW_AFTER_S) -> Callable[[], str]:
    """Returns what gives the token of the moment: one of one's own stays, a development token is made anew in time."""
    # By the clock that tokens expire by: the other one stands still while the machine sleeps.
    token, since = first, time.time()

    def current() -> str:
        nonlocal token, since
        if not 0 <= time.time() - since <= renew_after_s:
            try:
                token, since = again(), time.time()
            except CliError:
                return token  # the platform is gone from here; the gateway says so, or that the token is too old
        return token

    return current


def development_token(endpoint: Endpoint, identity: Identity, *, ttl_s: int = 3600) -> str:
    """Signs a token for a local platform."""
    local = identity if identity.subject else Identity(LOCAL_OPERATOR, (*identity.roles, ROLE_OPERATOR))
    try:
        return mint_issuer_token(
            Path(endpoint.signing_key),
            subject=local.subject,
            roles=local.roles,
            ttl_s=ttl_s,
            issuer=endpoint.issuer,
            audience=endpoint.audience,
        )
    except FileNotFoundError as error:
        raise not_running() from error


def _token(settings: CliSettings, identity: Identity, endpoint: Endpoint | None, address: str) -> str:
    own = settings.token.get_secret_value().strip()
    if own and (identity.subject or identity.roles):
        raise CliError(
            "SIGNALBOX_TOKEN already says who you are",
            hint="leave out --as, --admin and --role, or unset SIGNALBOX_TOKEN",
            code=ExitCode.USAGE,
        )
    if own and not _TOKEN.fullmatch(own):
        raise CliError(
            "SIGNALBOX_TOKEN holds no token: it has characters that none has",
            hint="set it to the token alone, on one line",
            code=ExitCode.USAGE,
        )
    if own:
        return own
    if endpoint is None or endpoint.gateway != address:
        raise CliError(
            f"the gateway at {address} wants a token",
            hint="set SIGNALBOX_TOKEN; --as works with the platform of `signalbox up` only",
            code=ExitCode.USAGE,
        )
    if identity.must_name and not identity.subject:
        raise CliError(
            "nobody is named who asks",
            hint="say who with --as USER, such as --as 27 (with --admin, an administrator)",
            code=ExitCode.USAGE,
        )
    return development_token(endpoint, identity)
