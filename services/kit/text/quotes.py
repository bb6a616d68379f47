"""Whether a text quotes code, however either was written down."""

from __future__ import annotations


def is_quoted(quote: str, code: str) -> bool:
    """Tells whether a quote stands in code, white space aside.

    Where the code was not valid UTF-8, and so has characters replaced, only ASCII can be compared: who quoted it may
    have read what it was written in.
    """
    if squeezed(quote) in squeezed(code):
        return True
    return "\N{REPLACEMENT CHARACTER}" in code and squeezed(_ascii(quote)) in squeezed(_ascii(code))


def squeezed(text: str) -> str:
    """Returns a text with its white space made one space each."""
    return " ".join(text.split())


def _ascii(text: str) -> str:
    # A NUL is replaced too.
    return "".join(character for character in text if "\0" < character < "\x80")
