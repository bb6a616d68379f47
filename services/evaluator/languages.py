"""Which language a file is in, as far as telling code from comments needs it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import PurePosixPath

from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename
from pygments.lexers.perl import PerlLexer
from pygments.lexers.r import SLexer
from pygments.lexers.templates import HtmlDjangoLexer
from pygments.token import Comment, _TokenType


class Family(Enum):
    """How a language marks blocks and comments."""

    PYTHON = "python"
    BRACES = "braces"
    MARKUP = "markup"
    PROSE = "prose"
    OTHER = "other"


@dataclass(frozen=True)
class Language:
    """A language, and its lexer; none when no lexer is known.

    line_ends: characters that end a line for its compiler, besides the line feed; empty when that is not known.
    has_escapes: whether `\\u000a` anywhere in a program is the character it names, as if it stood there itself.
    """

    family: Family
    lexer: type[Lexer] | None
    line_ends: str = ""
    has_escapes: bool = False


# Templates are code where they insert values; the plain HTML lexer takes that for text.
_TEMPLATES = frozenset({".html", ".htm", ".xhtml", ".jinja", ".jinja2", ".j2", ".djhtml"})
_PROSE = frozenset(
    {".md", ".markdown", ".rst", ".txt", ".adoc", ".asciidoc", ".org", ".tex", ".log", ".diff", ".patch"}
)
# Endings that several languages claim: the one that is meant far more often.
_CONTESTED = {".pl": PerlLexer, ".pm": PerlLexer, ".t": PerlLexer, ".r": SLexer}
_PYTHON = frozenset({"Python", "Cython", "Python 2.x", "Starlark"})
_SCRIPT_ENDS = "\r\u2028\u2029"
_LINE_ENDS = {
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte"), _SCRIPT_ENDS),
    **dict.fromkeys((".cs", ".csx", ".vb"), "\r\x85\u2028\u2029"),
    **dict.fromkeys((".java", ".kt", ".kts", ".groovy", ".gradle", ".swift", ".yaml", ".yml"), "\r"),
    # What stands outside of PHP's marks may be a script.
    **dict.fromkeys((".php", ".phtml"), _SCRIPT_ENDS),
}
_WITH_ESCAPES = frozenset({".java", ".groovy", ".gradle"})


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
        return Language(Family.MARKUP, HtmlDjangoLexer, _SCRIPT_ENDS)
    found = _CONTESTED.get(suffix) or find_lexer_class_for_filename(name)
    if not found:
        return Language(Family.OTHER, None)
    family = _family(found())
    ends = "\r" if family is Family.PYTHON else _SCRIPT_ENDS if family is Family.MARKUP else _LINE_ENDS.get(suffix, "")
    return Language(family, found, ends, suffix in _WITH_ESCAPES)


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
