"""DSNs in settings: checked before anything connects, for what a driver says of one it can't read quotes it."""

from __future__ import annotations

from typing import Annotated, Any, Final, NoReturn

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import AfterValidator, SecretStr

from services.kit.settings import refuse
from services.kit.text.printing import printable
from services.kit.wire.silence import NOTICE_LOSS

# psycopg's own default: a statement is prepared when it comes back this often.
PREPARE_THRESHOLD: Final = 5


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


def connection_parameters(application_name: str, *, prepare: bool) -> dict[str, Any]:
    """Returns how a service connects to Postgres: a statement is a transaction unless one is begun, a loss is noticed.

    Without `prepare` nothing outlives a transaction on the server: its sessions may be a pooler's, which are shared.
    """
    return {
        "autocommit": True,
        "prepare_threshold": PREPARE_THRESHOLD if prepare else None,
        "application_name": application_name,
        **NOTICE_LOSS,
    }


def require_database(dsn: str, variable: str) -> None:
    """Connects once, or says why nobody can, and ends the program with status 2.

    For a command, which somebody waits for: a pool would try again for a while, and log each attempt.
    """
    try:
        psycopg.connect(dsn, **NOTICE_LOSS).close()
    except psycopg.OperationalError as error:
        refuse_database(error, variable)


def refuse_database(error: Exception, variable: str) -> NoReturn:
    """Says that a database can't be used, as its driver says it, and ends the program with status 2.

    The driver names host, port, user and database, and never the password.
    """
    told = printable(" ".join(str(error).split()))
    refuse(
        [
            f"error: the database of {variable} can't be used: {told}",
            f"what to do: see that it runs, and that {variable} has its host, port, user, password, name and sslmode",
        ]
    )
