"""Texts to tokens, by Pygments, for a bounded amount of work: whoever writes a repository writes what is lexed.

Most lexers take quadratic time of some text, C and Java among them, and a few take exponential time of some hundred
characters. A regex can't be stopped within a thread, and holds the interpreter's lock for as long as it runs. So a
service lexes in processes of its own (`lexing_processes.py`); without any, only what is known to be quick is lexed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Protocol

from pygments.lexer import Lexer
from pygments.token import _TokenType

Token = tuple[int, _TokenType, str]
# With nasty texts of this size, measured: no lexer of these languages takes more than a tenth of a second.
SMALL: Final = 500
_QUICK_WHEN_SMALL: Final = frozenset(
    {"C", "C#", "C++", "CSS", "Dart", "Docker", "Go", "Groovy", "HTML", "HTML+Django/Jinja", "INI", "JSON", "Java"}
    | {"JavaScript", "Kotlin", "Lua", "Makefile", "PHP", "Perl", "PowerShell", "Properties", "Protocol Buffer"}
    | {"Python", "Ruby", "Rust", "S", "SQL", "Scala", "Swift", "TOML", "Terraform", "TypeScript", "Vue", "XML", "YAML"}
    | {"Bash", "JSX", "TSX", "Transact-SQL", "VB.net"}
)
# Python's lexer takes time linear in its text, but for blanks over many lines, each of which it reads to their end.
LARGE: Final = 100_000
_LINEAR: Final = frozenset({"Python"})
_BLANKS: Final = re.compile(r"\s{16,}")
_MAX_BLANKS_SQUARED: Final = 4_000_000


class TooMuchWork(Exception):
    """A text is not lexed within what it is allowed; nothing is known of it."""


class Lexing(Protocol):
    """Lexes texts."""

    def lex(self, lexer: type[Lexer], text: str, work: int) -> tuple[list[Token] | None, int]:
        """Returns a text's tokens, or None when they are more work than this, and the work it was; blocks."""
        ...


@dataclass
class Allowance:
    """What texts that are judged together may take.

    characters: of the texts. work: of lexing them, in characters of ordinary Python; a text that is read in several
    ways is lexed several times.
    """

    characters: int
    work: int
    lexing: Lexing = field(default_factory=lambda: QuickTexts())

    def take(self, characters: int) -> None:
        """Takes the characters of a text. Raises TooMuchWork when there are not so many left."""
        if characters > self.characters:
            raise TooMuchWork
        self.characters -= characters

    def lex(self, lexer: type[Lexer], text: str) -> list[Token]:
        """Returns a text's tokens; blocks for as long as that is work that is allowed. Raises TooMuchWork."""
        if self.work <= 0:
            raise TooMuchWork
        tokens, work = self.lexing.lex(lexer, text, self.work)
        self.work -= work
        if tokens is None:
            raise TooMuchWork
        return tokens


class QuickTexts:
    """Lexes in the caller's thread where no text of that size and language takes long; everything else is too much."""

    def lex(self, lexer: type[Lexer], text: str, work: int) -> tuple[list[Token] | None, int]:
        """Returns the tokens of a text, if it is sure to be quick."""
        if len(text) > work or not _is_quick(lexer.name, text):
            return None, 0
        return list(lexer().get_tokens_unprocessed(text)), len(text)


def _is_quick(language: str, text: str) -> bool:
    if len(text) <= SMALL:
        return language in _QUICK_WHEN_SMALL
    if language not in _LINEAR or len(text) > LARGE:
        return False
    return sum(len(blanks) ** 2 for blanks in _BLANKS.findall(text)) <= _MAX_BLANKS_SQUARED
