"""Labels of runs, as options give them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode

NewLabels = Annotated[
    list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Add this label to the run; repeatable.")
]
WantedLabels = Annotated[
    list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Only runs with this label; repeatable.")
]


def parse_labels(given: Iterable[str]) -> dict[str, str]:
    """Labels of `key=value` texts; what they may be made of, the platform says. Raises CliError."""
    labels: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise CliError(f"{text!r} is not a label", hint="write --label key=value", code=ExitCode.USAGE)
        if labels.setdefault(key, value) != value:
            hint = "a run has one value of a key"
            raise CliError(f"the label {key!r} is given twice", hint=hint, code=ExitCode.USAGE)
    return labels
