"""Sessions: a token in a header, kept in the database until it expires."""

import random
import string
import time

from flask import request

from portal import config
from portal.database import connection
from portal.errors import NotAllowed

ALPHABET = string.ascii_letters + string.digits
TOKEN_LENGTH = 32


def new_token():
    """A token that nobody should be able to guess."""
    return "".join(random.choice(ALPHABET) for _ in range(TOKEN_LENGTH))


def start_session(crew_id):
    """Start a session and return its token."""
    token = new_token()
    expires = time.time() + config.SESSION_HOURS * 3600
    connection().execute("INSERT INTO sessions VALUES (?, ?, ?)", (token, crew_id, expires))
    connection().commit()
    return token


def end_session():
    """End the session of this request, if it has one."""
    connection().execute("DELETE FROM sessions WHERE token = ?", (_token(),))
    connection().commit()


def current_crew():
    """Who makes this request. Raises NotAllowed."""
    row = connection().execute(
        "SELECT crew.* FROM crew JOIN sessions USING (crew_id) WHERE token = ? AND expires > ?", (_token(), time.time())
    ).fetchone()
    if row is None:
        raise NotAllowed("log in first")
    return row


def _token():
    return request.headers.get("X-Session", "")
