"""Mutants of a corpus of statements: one or a few of their words replaced by words that mean something else there.

Deterministic: the same seed gives the same mutants.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import postgast

# What a word of each kind becomes. A statement of a whole SELECT hides in most of them.
_TABLES = (
    "admin", "user_device_assignment", "pg_authid", "pg_roles", "pg_catalog.pg_class", "information_schema.tables",
    "everything_view", "devices_snapshot", "signalbox.caller_secret", "public.users", "devices", "users", "ships",
    '"admin"', "(SELECT * FROM admin)", "everything()", "(TABLE admin)", "ONLY admin", "postgres.public.admin",
)  # fmt: skip
_ALIASES = (
    "x", '"x y"', '"x, (SELECT login FROM admin)"', "$$x, (SELECT login FROM admin)$$", "'x'", "U&\"x\\0020y\"",
    "admin",
    '"select"', "pg_class", '"x"", admin.login"', "everything", "whole_name", "°µ", "users", "current_user", '"user"',
)  # fmt: skip
_FUNCTIONS = (
    "pg_typeof", "record_out", "current_setting", "everything", "whole_name", "to_regclass", "pg_read_file", "lower",
    "pg_get_userbyid", "query_to_xml", "count", "string_agg", "row_to_json", "to_json", "pg_catalog.lower", "coalesce",
    "public.everything", "version", "max", "json_agg", "format", "unnest", "pg_stat_get_activity", "set_config",
)  # fmt: skip
_TYPES = (
    "text", "regclass", "regrole", "int", "numeric(3)", "varchar(2)", "json", "oid", "name", '"char"', "devices",
    "public.users", "text[]", "numeric('3')", "bpchar(3)", "interval day", "record", "pg_catalog.text", "uuid",
)  # fmt: skip
_OPERATORS = (
    "=", "<>", "||", "~", "~~", "!~*", "@>", "->", "->>", "#>", "OPERATOR(pg_catalog.=)", "IS DISTINCT FROM", "IN",
    "= ANY", "<> ALL", "LIKE", "SIMILAR TO", "@@", "+", "-", "^", "AND", "OR", "?", "::", "COLLATE", "AT TIME ZONE",
)  # fmt: skip
_LITERALS = (
    "1", "'x'", "E'\\x27'", "$$x$$", "$a$'$a$", "U&'\\0061'", "N'x'", "B'1'", "X'1f'", "1e5", "NULL", "TRUE", "-1",
    "0x1f", "1_000", "'admin'", "'a''b'", "(SELECT login FROM admin)", "(SELECT max(name) FROM users)", "$1", "''",
    "ARRAY['x']", "ROW(1, 2)", "current_user", "CURRENT_DATE", "(TABLE admin LIMIT 1)",
    "(SELECT pin FROM users LIMIT 1)",
)  # fmt: skip
_UNITS = ("day", "'day'", '"day"', "$$day$$", "epoch", "pg_sleep", "'day FROM now()), (SELECT login FROM admin'")
_COLLATIONS = ('"C"', '"en_US, (SELECT login FROM admin)"', 'pg_catalog."C"', "$$C$$", '"default"')
_ENDINGS = (
    "", " FOR UPDATE", " UNION SELECT login FROM admin", "; SELECT 1", " -- x", " LIMIT ALL", " OFFSET 1", "/* x */",
    " INTO stolen", " ORDER BY 1", ") AS q, admin --", " FETCH FIRST 1 ROW ONLY",
)  # fmt: skip
_COLUMNS = (
    "pin", "ctid", "tableoid", "name", "device_id", "u.pg_typeof", "users.pin", "d.whole_name", "*", "d.*",
    "admin.login",
    "d", "users", "xmin", "(d).name", "public.users.pin", "users.record_out", "pressure", "email", "login",
)  # fmt: skip
_AFTER_FROM = frozenset({"FROM", "JOIN", "FROM_P"})
_KINDS = {number: name for name, number in postgast.pg_query_pb2.Token.items()}
_ANY = (*_ALIASES, *_LITERALS, *_COLUMNS, *_OPERATORS, *_FUNCTIONS)


def mutants(corpus: Sequence[str], count: int, *, seed: int) -> Iterator[str]:
    """Yields so many mutants of a corpus; a few are the same."""
    chance = random.Random(seed)  # noqa: S311 - the same every time, on purpose
    parsed = [words for text in corpus if (words := _words(text))]
    for _ in range(count):
        words = list(chance.choice(parsed))
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            _mutate(words, chance)
        yield " ".join(text for _, text in words) + (chance.choice(_ENDINGS) if chance.random() < 0.1 else "")


def _words(text: str) -> list[tuple[str, str]]:
    """Returns the words of a text with the kind that the lexer gives them."""
    raw = text.encode()
    try:
        tokens = postgast.scan(text).tokens
    except postgast.PgQueryError:
        return []
    return [(_KINDS.get(token.token, ""), raw[token.start : token.end].decode()) for token in tokens]


def _mutate(words: list[tuple[str, str]], chance: random.Random) -> None:
    place = chance.randrange(len(words))
    kind, text = words[place]
    before = words[place - 1][0] if place else ""
    after = words[place + 1][0] if place + 1 < len(words) else ""
    roll = chance.random()
    if roll < 0.05:
        words.insert(place, chance.choice(words))
    elif roll < 0.1 and len(words) > 2:
        del words[place]
    elif roll < 0.2:
        words[place] = (kind, chance.choice(_ANY))
    else:
        words[place] = (kind, chance.choice(_instead(kind, before, after, text)))


def _instead(kind: str, before: str, after: str, text: str) -> Sequence[str]:
    """Returns what may stand in the place of a word."""
    if before in _AFTER_FROM:
        return _TABLES
    if before == "AS":
        return _ALIASES
    if before == "TYPECAST" or (before == "AS" and after == "ASCII_41"):
        return _TYPES
    if before == "COLLATE":
        return _COLLATIONS
    if before == "ASCII_40" and after == "FROM":
        return _UNITS
    if after == "ASCII_40":
        return _FUNCTIONS
    if kind in ("SCONST", "ICONST", "FCONST"):
        return _LITERALS
    if kind in ("Op", "ASCII_61", "ASCII_43", "ASCII_45", "ASCII_42", "LIKE", "ILIKE", "NOT_EQUALS", "TYPECAST"):
        return _OPERATORS
    if kind == "IDENT":
        return (*_COLUMNS, *_ALIASES) if before != "IDENT" else _ALIASES
    return (text.lower(), text, *_ANY)
