"""The portal's SQLite database."""

import sqlite3
from contextlib import closing

from flask import g

from portal import config

SCHEMA = """
CREATE TABLE IF NOT EXISTS ships (
    ship_id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, home_port TEXT NOT NULL, built INTEGER
);
CREATE TABLE IF NOT EXISTS devices (
    device_id INTEGER PRIMARY KEY, ship_id INTEGER REFERENCES ships, name TEXT NOT NULL, status TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS crew (
    crew_id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, password_hash TEXT NOT NULL, is_officer INTEGER DEFAULT 0
);
CREATE TABLE IF NOT EXISTS sessions (
    token TEXT PRIMARY KEY, crew_id INTEGER REFERENCES crew, expires REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS notes (
    note_id INTEGER PRIMARY KEY, ship_id INTEGER REFERENCES ships, author TEXT NOT NULL, text TEXT NOT NULL
);
"""


def connection() -> sqlite3.Connection:
    """The connection of this request."""
    if "connection" not in g:
        g.connection = sqlite3.connect(config.DATABASE)
        g.connection.row_factory = sqlite3.Row
    return g.connection


def close(_error: BaseException | None = None) -> None:
    """Close the connection of this request, if it has one."""
    opened = g.pop("connection", None)
    if opened is not None:
        opened.close()


def create() -> None:
    """Create the tables that are missing."""
    with closing(sqlite3.connect(config.DATABASE)) as database:
        database.executescript(SCHEMA)
