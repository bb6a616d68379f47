"""What the SQL executor refuses, and how it fails.

Exception
├── PolicyFileError      (services/kit/text/policy_file.py) the policy file is wrong: the service does not start, the
│                        command exits
├── UnsafeDatabase       the database does not hold what the policy promises: the service does not start
├── EmbeddingsUnavailable
│                        a question is matched by its text instead, and the loading command exits
├── ToolRefused          (services/kit/tools/executor.py) a refusal that the model is told of
└── SignalboxError       the call itself fails: a gRPC status
    ├── CallerUnfit      PERMISSION_DENIED: the caller's subject can own no row in this database
    ├── DatabaseBusy     RESOURCE_EXHAUSTED: no connection came free in time
    └── DatabaseDown     UNAVAILABLE: the database can't be reached
"""

from __future__ import annotations

import grpc

from services.kit.errors import SignalboxError


class UnsafeDatabase(Exception):
    """The database does not hold what the policy promises; the message lists every failed check."""


class EmbeddingsUnavailable(Exception):
    """The embeddings endpoint did not answer, or not with embeddings that can be used."""


class CallerUnfit(SignalboxError):
    """The caller's subject does not have the type of the owner columns, so it can't own rows."""

    reason = "CALLER_UNFIT"
    code = grpc.StatusCode.PERMISSION_DENIED


class DatabaseBusy(SignalboxError):
    """No database connection came free in time."""

    reason = "DATABASE_BUSY"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True


class DatabaseDown(SignalboxError):
    """The database can't be reached, or dropped the connection."""

    reason = "DATABASE_DOWN"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True
