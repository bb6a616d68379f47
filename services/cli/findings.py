"""`signalbox findings`: a person's word on a verdict, which stands from then on."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import terminal
from services.cli.terminal import Terminal, run_command
from services.findings.sarif.outcome import Verdict

commands = typer.Typer()
findings_command = typer.Typer(no_args_is_help=True, help="Accept or overrule verdicts on findings.")
commands.add_typer(findings_command, name="findings")

Judged = Annotated[Path, typer.Argument(metavar="LOG", help="Log with verdicts, as `investigate --out` writes it.")]
Fingerprint = Annotated[str, typer.Argument(metavar="FINGERPRINT", help="Which finding.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")]
Decisions = Annotated[Path, typer.Option("--decisions", metavar="FILE", help="File of decisions, to add to (YAML).")]


@findings_command.command("accept")
def accept_command(
    log: Judged, fingerprint: Fingerprint, reason: Reason, decisions: Decisions = Path("decisions.yaml")
) -> None:
    """Accept a verdict: `investigate --decisions` asks no model about the finding again."""
    run_command(decide(log, fingerprint, reason, decisions, terminal, overrule=False), terminal)


@findings_command.command("overrule")
def overrule_command(
    log: Judged,
    fingerprint: Fingerprint,
    reason: Reason,
    decisions: Decisions = Path("decisions.yaml"),
    verdict: Annotated[
        Verdict | None, typer.Option(help="The verdict instead; without it, the opposite.", case_sensitive=False)
    ] = None,
) -> None:
    """Overrule a verdict: `investigate --decisions` asks no model about the finding again."""
    run_command(decide(log, fingerprint, reason, decisions, terminal, overrule=True, verdict=verdict), terminal)


async def decide(
    log: Path,
    fingerprint: str,
    reason: str,
    decisions: Path,
    terminal: Terminal,
    *,
    overrule: bool,
    verdict: Verdict | None = None,
) -> ExitCode:
    """Writes a person's decision on a verdict. Raises CliError, BadFile."""
    from services.findings.investigation.decisions import FindingDecision, add_decision
    from services.findings.investigation.earlier import read_earlier

    was = read_earlier(log).get(fingerprint)
    if was is None:
        hint = "fingerprints are in `properties.signalbox` of each result"
        raise CliError(f"{log} has no verdict on {fingerprint!r}", hint=hint, code=ExitCode.USAGE)
    now = verdict or (_opposite(was.verdict) if overrule else was.verdict)
    if now is Verdict.NEEDS_REVIEW or (overrule and now is was.verdict):
        raise CliError(
            f"the verdict is {was.verdict.value}, and that would leave it so",
            hint="say what it is: overrule --verdict TRUE_POSITIVE or FALSE_POSITIVE",
            code=ExitCode.USAGE,
        )
    add_decision(
        decisions,
        FindingDecision(
            fingerprint=fingerprint,
            is_vulnerable=now is Verdict.TRUE_POSITIVE,
            reason=reason,
            was=was.verdict,
            decided_on=datetime.datetime.now(tz=datetime.UTC).date(),
        ),
    )
    terminal.out.print(f"{now.value}, from now on: {decisions}", markup=False)
    return ExitCode.OK


def _opposite(verdict: Verdict) -> Verdict:
    opposites = {Verdict.TRUE_POSITIVE: Verdict.FALSE_POSITIVE, Verdict.FALSE_POSITIVE: Verdict.TRUE_POSITIVE}
    return opposites.get(verdict, verdict)
