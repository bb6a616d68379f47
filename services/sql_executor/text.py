"""A query's text before anything parses it: bounded length and nesting, no characters that parsers read differently."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from sqlglot import Dialect, Token, TokenType
from sqlglot.errors import SqlglotError

from services.kit.tool_executor import ToolRefused
from services.sql_executor.policy import Limits

DIALECT = "postgres"
MAX_TOKENS = 6000

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_PREFIXES = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
_PLAIN_STRINGS = frozenset({TokenType.STRING, TokenType.HEREDOC_STRING})
# Kinds of literals that sqlglot and Postgres read differently, or that hide names behind escapes.
_ODD_LITERALS = frozenset(
    {TokenType.BYTE_STRING, TokenType.RAW_STRING, TokenType.UNICODE_STRING, TokenType.NATIONAL_STRING}
)
_LETTERS_AND_MARKS = ("L", "M", "N")
_CALL = re.compile(r"([a-z_][a-z0-9_]*)\s*\(", re.IGNORECASE)


def read_text(query: str, limits: Limits) -> tuple[str, list[Token]]:
    """Return a text with plain line ends, and the tokens of the one statement in it. Raises ToolRefused."""
    if len(query) > limits.query_length:
        raise ToolRefused("too_long", f"The query has {len(query)} characters; at most {limits.query_length} are read.")
    text = query.replace("\r\n", "\n")
    # libpq drops what follows a NUL, and a carriage return ends a comment for Postgres but not for everybody.
    for character, name in (("\x00", "NUL"), ("\r", "carriage return")):
        if character in text:
            raise ToolRefused("odd_character", f"The query has a {name} character; write it without.")
    tokens = _tokenize(text)
    statement = _one_statement(tokens)
    _check_literals(tokens)
    _check_characters(text, tokens)
    _check_nesting(tokens, limits.depth)
    return text, statement


def called_name(rendered: str) -> str:
    """Return the name of the function that a rendered expression begins with a call of; empty for any other.

    A quoted name keeps its case, and may belong to somebody's own function: it is none either.
    """
    called = _CALL.match(rendered)
    return called.group(1).lower() if called else ""


def _tokenize(text: str) -> Sequence[Token]:
    try:
        tokens: Sequence[Token] = Dialect.get_or_raise(DIALECT).tokenize(text)
    except SqlglotError as error:
        raise ToolRefused("unparsable", "The query ends inside a string, a quoted name or a comment.") from error
    if len(tokens) > MAX_TOKENS:
        raise ToolRefused("too_long", f"The query has {len(tokens)} words and signs; at most {MAX_TOKENS} are read.")
    return tokens


def _one_statement(tokens: Sequence[Token]) -> list[Token]:
    meant = [token for token in tokens if token.token_type is not TokenType.SEMICOLON]
    if not meant:
        raise ToolRefused("empty", "The query is empty; write one SELECT statement.")
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON and meant[0].start < token.start < meant[-1].start:
            raise ToolRefused("multiple_statements", "Write exactly one statement; this has more than one.")
    return meant


def _check_literals(tokens: Sequence[Token]) -> None:
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.token_type in _ODD_LITERALS:
            raise ToolRefused(
                "unsupported_syntax", "Write strings in plain quotes, without a prefix such as E, N or U&."
            )
        if after is None or after.start != token.end + 1:
            continue
        if token.text.upper() == "U" and after.token_type is TokenType.AMP:
            raise ToolRefused("unsupported_syntax", "Write names and strings without Unicode escapes (U&).")
        if token.token_type is TokenType.NUMBER and (after.text[:1].isalnum() or after.text[:1] in ("_", "$")):
            raise ToolRefused("unparsable", f"The number before {after.text!r} runs into it; put a space between them.")


def _check_characters(text: str, tokens: Sequence[Token]) -> None:
    if text.isascii() and text.isprintable():
        return
    inside_strings = {
        position
        for token in tokens
        if token.token_type in _PLAIN_STRINGS
        for position in range(token.start, token.end + 1)
    }
    for position, character in enumerate(text):
        if position not in inside_strings and not _is_plain(character):
            name = unicodedata.name(character, f"U+{ord(character):04X}")
            raise ToolRefused(
                "odd_character", f"The query has the character {name} outside of a string; use plain ASCII there."
            )


def _is_plain(character: str) -> bool:
    if character.isascii():
        return character.isprintable() or character in "\n\t"
    # Letters of any language may be in names, but not look-alikes that fold to something else.
    letter = unicodedata.category(character)[0] in _LETTERS_AND_MARKS
    return letter and unicodedata.normalize("NFKC", character) == character


def _check_nesting(tokens: Sequence[Token], limit: int) -> None:
    depth = deepest = run = 0
    for token in tokens:
        run = run + 1 if token.token_type in _PREFIXES else 0
        if token.token_type in _OPENING:
            depth += 1
        elif token.token_type in _CLOSING:
            depth -= 1
        deepest = max(deepest, depth + run)
    if deepest > limit:
        raise ToolRefused("too_deep", f"The query nests {deepest} levels deep; at most {limit} are read. Use CTEs.")
