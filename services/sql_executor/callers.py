"""The caller as the database knows it, and the signature that makes the database believe it for one transaction."""

from __future__ import annotations

import hashlib
import hmac
import re
import uuid
from dataclasses import dataclass

from postgast import pg_query_pb2 as pb

from services.kit.identity.caller import Caller
from services.sql_executor.errors import CallerUnfit
from services.sql_executor.policy import SqlPolicy

MIN_SECRET_LENGTH = 32
_BLOCK_SIZE = 64  # of SHA-256, in bytes
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)


@dataclass(frozen=True)
class SqlCaller:
    """Who a query runs for."""

    subject: str
    is_admin: bool

    def literal(self, subject_type: str) -> pb.Node:
        """Returns the subject as Postgres reads it in a statement."""
        if subject_type != "integer":
            return pb.Node(a_const=pb.A_Const(sval=pb.String(sval=self.subject)))
        if abs(int(self.subject)) < 1 << 31:
            return pb.Node(a_const=pb.A_Const(ival=pb.Integer(ival=int(self.subject))))
        return pb.Node(a_const=pb.A_Const(fval=pb.Float(fval=self.subject)))


def sql_caller(caller: Caller, policy: SqlPolicy) -> SqlCaller:
    """Returns the caller for a policy's database. Raises CallerUnfit when the subject can't own a row."""
    is_admin = not caller.roles.isdisjoint(policy.admin_roles)
    if not is_admin and not _fits(caller.subject, policy.owner.subject_type):
        raise CallerUnfit(f"the caller's subject is not of the type {policy.owner.subject_type}, as owners are here")
    return SqlCaller(caller.subject, is_admin)


def _fits(subject: str, subject_type: str) -> bool:
    if subject_type == "integer":
        return _INTEGER.fullmatch(subject) is not None
    if subject_type == "uuid":
        return _is_uuid(subject)
    return "\x00" not in subject


def _is_uuid(subject: str) -> bool:
    try:
        return str(uuid.UUID(subject)) == subject.lower()
    except ValueError:
        return False


class CallerSigner:
    """Signs a caller for one transaction of one database session."""

    def __init__(self, secret: str) -> None:
        if len(secret) < MIN_SECRET_LENGTH:
            raise ValueError(f"the caller secret must have at least {MIN_SECRET_LENGTH} characters")
        self._key = secret.encode()

    def sign(self, caller: SqlCaller, *, database: str, backend_pid: int, started_us: int) -> str:
        """Returns the value of `signalbox.caller` that is believed in the transaction that began at `started_us`."""
        claim = f"{'admin' if caller.is_admin else 'user'}:{caller.subject}"
        message = f"v1\n{database}\n{backend_pid}\n{started_us}\n{claim}"
        return f"{hmac.new(self._key, message.encode(), hashlib.sha256).hexdigest()}:{claim}"


def hmac_pads(secret: str) -> tuple[bytes, bytes]:
    """Returns the inner and the outer pad of HMAC-SHA-256 (RFC 2104): Postgres has the hash, not the HMAC."""
    key = secret.encode()
    if len(key) > _BLOCK_SIZE:
        key = hashlib.sha256(key).digest()
    key = key.ljust(_BLOCK_SIZE, b"\0")
    return bytes(byte ^ 0x36 for byte in key), bytes(byte ^ 0x5C for byte in key)
