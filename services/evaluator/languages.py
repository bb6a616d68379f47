"""Which language a file is in, as far as telling code from comments needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename
from pygments.lexers.perl import PerlLexer
from pygments.lexers.r import SLexer
from pygments.lexers.templates import HtmlDjangoLexer
from pygments.token import Comment, _TokenType

# Lexers keep state while they read, and texts are read on several threads: each text gets its own.
MakeLexer = Callable[[], Any]


class Family(Enum):
    """How a language marks blocks and comments."""

    PYTHON = "python"
    BRACES = "braces"
    MARKUP = "markup"
    PROSE = "prose"
    OTHER = "other"


@dataclass(frozen=True)
class Language:
    """A language, and how to make a lexer for one text; none when no lexer is known."""

    family: Family
    make_lexer: MakeLexer | None


# Templates are code where they insert values; the plain HTML lexer takes that for text.
_TEMPLATES = frozenset({".html", ".htm", ".xhtml", ".jinja", ".jinja2", ".j2", ".djhtml"})
_PROSE = frozenset(
    {".md", ".markdown", ".rst", ".txt", ".adoc", ".asciidoc", ".org", ".tex", ".log", ".diff", ".patch"}
)
# Endings that several languages claim: the one that is meant far more often.
_CONTESTED = {".pl": PerlLexer, ".pm": PerlLexer, ".t": PerlLexer, ".r": SLexer}
_PYTHON = frozenset({"Python", "Cython", "Python 2.x", "Starlark"})


def language_of(path: str) -> Language:
    """Returns the language of a file by its name."""
    name = PurePosixPath(path).name.lower()
    suffix = PurePosixPath(name).suffix
    return _language(f"file{suffix}" if suffix else name, suffix)


@lru_cache(maxsize=512)
def _language(name: str, suffix: str) -> Language:
    if suffix in _PROSE or (not suffix and name in {"readme", "license", "copying", "changelog", "notice", "authors"}):
        return Language(Family.PROSE, None)
    if suffix in _TEMPLATES:
        return Language(Family.MARKUP, HtmlDjangoLexer)
    found = _CONTESTED.get(suffix) or find_lexer_class_for_filename(name)
    return Language(_family(found()), found) if found else Language(Family.OTHER, None)


def _family(lexer: Lexer) -> Family:
    if lexer.name in _PYTHON:
        return Family.PYTHON
    if lexer.name in {"Text only", "Markdown", "reStructuredText"}:
        return Family.PROSE
    if _reads_comment(lexer, "/* a */"):
        return Family.BRACES
    return Family.MARKUP if _reads_comment(lexer, "<!-- a -->") else Family.OTHER


def _reads_comment(lexer: Lexer, text: str) -> bool:
    return all(is_a(kind, Comment) for _, kind, value in lexer.get_tokens_unprocessed(text) if value.strip())


def is_a(kind: _TokenType, group: _TokenType) -> bool:
    """Whether a kind of token is a group of kinds, or one in it."""
    return kind[: len(group)] == group
