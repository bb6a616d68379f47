"""Pages from templates: Jinja escapes what comes from elsewhere, and `printable` shows what would steer the reader."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.json_format import MessageToDict
from jinja2 import Environment, PackageLoader, StrictUndefined

from services.kit.outcome import Outcome
from services.kit.text import limit_changes
from services.kit.text.json_text import json_text
from services.kit.text.printing import printable
from services.kit.text.words import (
    code_words,
    costs_words,
    duration,
    elapsed,
    fact,
    limit_text,
    moment,
    money,
    number,
    origin_name,
    priced,
    shown_labels,
    state_name,
)


def rendered(template: str, **values: Any) -> str:
    """Returns a template with values in it."""
    html: str = _environment().get_template(template).render(**values)
    return html


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("services.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "printable": printable,
        "duration": duration,
        "moment": moment,
        "number": lambda value: number(float(value)),
        "state": state_name,
        "outcome": lambda outcome: (Outcome.of(outcome) or "").replace("_", " "),
        "code_words": lambda code: printable(code_words(code)),
        "fact": fact,
        "json": lambda message: json_text(MessageToDict(message)),
        "place": lambda name: "the end" if name == "__end__" else printable(name),
        "elapsed": elapsed,
        "labels": shown_labels,
        "costs": costs_words,
        "priced": priced,
        "limit": limit_text,
        "origin": origin_name,
        "changed_values": limit_changes.values_of,
        "changed_source": limit_changes.source_of,
        "change_author": limit_changes.author_of,
        "change_release": limit_changes.release_of,
        "change_reason": limit_changes.reason_of,
    }
    environment.globals["money"] = money
    return environment
