"""Options that `signalbox triage` and `investigate` share."""

from __future__ import annotations

from typing import Annotated

import typer

from services.findings.sarif.outcome import Verdict

Repository = Annotated[str, typer.Option("--repo", metavar="PATH", help="Git repository of the code: path or URL.")]
Commit = Annotated[str, typer.Option(metavar="COMMIT", help="Commit that was analysed; default: the log's, else HEAD.")]
FailOn = Annotated[
    list[Verdict] | None,
    typer.Option(case_sensitive=False, help="Exit with status 10 when a finding has this verdict; repeatable."),
]
