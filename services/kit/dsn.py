"""DSNs in settings: checked before anything connects, for what a driver says of one it can't read quotes it."""

from __future__ import annotations

from typing import Annotated

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import AfterValidator, SecretStr


def check_dsn(dsn: SecretStr) -> SecretStr:
    """Returns a DSN that can be read. Raises ValueError, which says nothing of what is in it."""
    try:
        conninfo_to_dict(dsn.get_secret_value())
    except psycopg.ProgrammingError:
        # The cause quotes the password, and a traceback would show the cause.
        raise ValueError(
            "can't be read as a DSN, postgresql://user:password@host:port/database; in its parts write % as %25, "
            "@ as %40, : as %3A and / as %2F"
        ) from None
    return dsn


Dsn = Annotated[SecretStr, AfterValidator(check_dsn)]
