"""Prompts: words from files, and what a node knows as one block of JSON beside them, which nothing in it can close.

The words come first and are the same in every call, so that a provider can cache them; the data follows. Whatever reads
a prompt back reads the block, and none of the words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from services.kit.models.prompt_files import text_of

BEGIN: Final = "<data>"
END: Final = "</data>"
_BLOCK = re.compile(rf"^{BEGIN}\n(?P<json>.*?)\n{END}$", re.DOTALL | re.MULTILINE)
# What could be taken for a delimiter, ends a line for some readers and not for others, or turns text around.
_ESCAPED = re.compile(
    "<(?=[/\\s]*data\\b)|[\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]", re.IGNORECASE
)


def words(package: str, name: str) -> str:
    """Returns the words of a prompt: the file `prompts/<name>.txt` of a package, or the operator's in its place."""
    return text_of(package, f"{name}.txt").strip()


def prompt(package: str, name: str, data: Mapping[str, Any]) -> str:
    """Returns the words of a prompt, and below them its data."""
    return with_data(words(package, name), data)


def with_data(told: str, data: Mapping[str, Any]) -> str:
    """Returns words, and below them data."""
    return f"{told}\n\n{data_block(data)}"


def data_block(data: Mapping[str, Any]) -> str:
    """Returns data between delimiters; a text inside is one JSON string on one line, whatever it holds."""
    text = json.dumps(data, ensure_ascii=False, indent=1)
    return f"{BEGIN}\n{_ESCAPED.sub(_as_escape, text)}\n{END}"


def read_data(text: str) -> dict[str, Any]:
    """Returns the data of a prompt, empty where it has none; of several blocks the later ones count."""
    found: dict[str, Any] = {}
    for block in _BLOCK.finditer(text):
        with suppress(ValueError):  # words that look like a block are words
            data = json.loads(block["json"])
            found |= data if isinstance(data, dict) else {}
    return found


def _as_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
