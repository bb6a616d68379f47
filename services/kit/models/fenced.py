"""The fence that models like to wrap JSON in: nothing is lost by taking it off."""

from __future__ import annotations

FENCE = "```"


def unfenced(text: str) -> str:
    """Returns what stands in the one Markdown fence around a text, which may name JSON; else the text as it is."""
    inside = text.strip().removeprefix(FENCE).removesuffix(FENCE)
    language, newline, body = inside.partition("\n")
    wrapped = len(inside) == len(text.strip()) - 2 * len(FENCE)
    return body if wrapped and newline and language.strip() in ("", "json") else text
