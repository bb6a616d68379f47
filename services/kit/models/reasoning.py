"""Reasoning that models write into their answers: `<think>…</think>` and its kin. It is no part of the answer."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad"
# One alternative per dialect: tags (most), [THINK] (Mistral), ◁think▷ (Kimi); channels are gpt-oss's.
_TAG_OPENS: Final = rf"<(?:seed:)?(?:{_WORDS})(?:\s[^<>]{{0,80}})?>|<\|begin_of_thought\|>|<unused94>|\[THINK\]|◁think▷"
_TAG_CLOSES: Final = rf"</(?:seed:)?(?:{_WORDS})\s{{0,8}}>|<\|end_of_thought\|>|<unused95>|\[/THINK\]|◁/think▷"
_TAGS: Final = tuple(re.compile(each, re.IGNORECASE) for each in (_TAG_OPENS, _TAG_CLOSES))
_TAGS_AND_CHANNELS: Final = (
    re.compile(rf"{_TAG_OPENS}|<\|channel\|>\s{{0,8}}(?:analysis|commentary)\b", re.IGNORECASE),
    re.compile(rf"{_TAG_CLOSES}|<\|channel\|>\s{{0,8}}final\s{{0,8}}<\|message\|>", re.IGNORECASE),
)
# The same channels, of a server that takes the template's tokens out and leaves the names that stood between them.
_BARE_CHANNELS = re.compile(r"\A(?:analysis|commentary)(?=[A-Z]).*assistantfinal(?=\S)", re.DOTALL)
_CONTROL = re.compile(r"<\|(?:start|end|return|message|channel)\|>(?:assistant\b)?")


def without_reasoning(text: str) -> str:
    """Returns what a model says once its reasoning is taken out; nothing is left of reasoning that never ended.

    A closing tag without an opening one ends reasoning that began in the prompt, as some chat templates have it. The
    cost is linear in the text.
    """
    if "assistantfinal" in text:
        text = _BARE_CHANNELS.sub("", text)
    said = _without(text, *_TAGS_AND_CHANNELS)
    return text if said is None else _CONTROL.sub("", said).strip()


def without_tagged_reasoning(text: str) -> str:
    """Returns a text without reasoning between tags; channels, which also carry calls, stay."""
    said = _without(text, *_TAGS)
    return text if said is None else said


def _without(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> str | None:
    """Returns what stands outside of reasoning; None where there is none."""
    if not any(mark in text for mark in "<[◁"):
        return None
    marks = sorted(
        (found.start(), found.end(), opens)
        for pattern, opens in ((opening, True), (closing, False))
        for found in pattern.finditer(text)
    )
    if not marks:
        return None
    kept: list[str] = []
    position, inside = 0, False
    for start, end, opens in marks:
        if opens and not inside:
            kept.append(text[position:start])
        elif not opens and not inside:
            kept.clear()
        inside, position = opens, end
    if not inside:
        kept.append(text[position:])
    return "".join(kept)
