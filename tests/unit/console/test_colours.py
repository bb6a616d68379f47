"""Texts can be read on what they stand on, in light and dark: WCAG's contrast of 4.5 to 1."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

LEAST = 4.5
PAIRS = [
    *((text, on) for text in ("ink", "soft", "blue", "stop", "warn", "go", "violet") for on in ("card", "paper")),
    *((kind, f"{kind}-soft") for kind in ("go", "stop", "warn", "violet")),
    *((text, "code") for text in ("ink", "soft", "blue")),
]


def colours(scheme: str) -> dict[str, str]:
    """The named colours of a scheme; the dark one names all that differ."""
    style = files("services.console.explanation_page").joinpath("page.css").read_text("utf-8")
    light, dark = style.split("prefers-color-scheme: dark", 1)
    named = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    return named if scheme == "light" else named | dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", dark.split("* {")[0]))


def luminance(colour: str) -> float:
    """How bright a colour is, as WCAG has it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("text", "on"), PAIRS, ids=" on ".join)
def test_a_text_can_be_read(scheme: str, text: str, on: str) -> None:
    named = colours(scheme)
    dim, bright = sorted((luminance(named[text]), luminance(named[on])))
    assert (bright + 0.05) / (dim + 0.05) >= LEAST
