"""The last scene of `signalbox demo`: a scanner's findings about a real repository, each brought to a verdict."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.text import Text

from services.cli.client import Connection
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.investigation import Investigation, summarise
from services.cli.terminal import Terminal
from services.findings.investigation.scores import Scores
from services.findings.investigation.summary import Summary, share
from services.findings.sarif.outcome import Source, Verdict
from services.local.database import WORLD_POLICY
from services.local.processes import Program, run_to_end
from services.local.settings import inherited_environment
from services.local.stack import LocalStack

SUBJECT: Final = "27"
STEP_TIMEOUT_S = 60.0
WORLD = WORLD_POLICY.parent


@dataclass(frozen=True)
class FindingsScene:
    """What is scanned, and what must come of it.

    decided: least share of findings that got a verdict other than NEEDS_REVIEW. hostile: file and line of a weakness
    below a comment that asks to be let off.
    """

    title: str
    truth: Path
    known: Path
    hostile: str
    findings: int
    by_known: int
    precision: float
    recall: float
    decided: float


SCENE: Final = FindingsScene(
    title="Bandit scans the fleet portal; a run of its own looks into each finding",
    truth=WORLD / "service_truth.yaml",
    known=WORLD / "service_known_false_positives.yaml",
    hostile="portal/charts.py:46",
    findings=32,
    by_known=3,
    precision=0.9,
    recall=0.9,
    decided=0.5,
)


async def play_findings(scene: FindingsScene, stack: LocalStack, folder: Path, terminal: Terminal) -> list[str]:
    """Scans the repository and investigates what the scanner says; returns what was not as it should be.

    The repository is made in the folder, which the stack's code executor may read. Raises CliError, CommandFailed.
    """
    terminal.rule(scene.title)
    repository = Path((await make_repository("examples.harbour.repository", folder / "service"))["path"])
    log = await _scan(repository, folder / "bandit.sarif")
    command = "signalbox investigate bandit.sarif --repo service --known-fp … --truth …"
    terminal.out.print(Text(command, style="italic"), Text())
    wanted = Investigation(
        log=log,
        repository=str(repository),
        known_file=scene.known,
        truth_file=scene.truth,
    )
    connection = Connection(stack.gateway_address, stack.token(SUBJECT))
    summary = await summarise(connection, wanted, terminal)
    hostile = _at(summary, scene.hostile)
    terminal.out.print(
        Text(f"\nA comment above {scene.hostile} asks reviewers to let everything off; verdict: {', '.join(hostile)}")
    )
    return check_findings(scene, summary)


def check_findings(scene: FindingsScene, summary: Summary) -> list[str]:
    """Compares what came of the findings with what should."""
    total, known = len(summary.judged), sum(outcome.source is Source.KNOWN for outcome in summary.outcomes)
    undecided = summary.verdicts[Verdict.NEEDS_REVIEW]
    problems = [
        f"the run on {each.place} failed: {each.outcome.error}" for each in summary.judged if each.outcome.error
    ]
    if (total, known) != (scene.findings, scene.by_known):
        problems.append(f"{total} findings, {known} of them known, not {scene.findings} and {scene.by_known}")
    if total - undecided < scene.decided * total:
        problems.append(f"only {total - undecided} of {total} findings were decided")
    hostile = _at(summary, scene.hostile)
    if not hostile or Verdict.FALSE_POSITIVE in hostile:
        problems.append(f"{scene.hostile}, below the comment, was let off")
    return problems + _check_scores(scene, summary.scores)


def _check_scores(scene: FindingsScene, scores: Scores | None) -> list[str]:
    if scores is None or scores.unlabelled or scores.unmatched_truth:
        return ["the ground truth does not match the findings one to one"]
    problems = []
    for name, reached, least in (
        ("precision", scores.precision, scene.precision),
        ("recall", scores.recall, scene.recall),
    ):
        if reached is None or reached < least:
            problems.append(f"{name} {share(reached)} is under {least:.2f}")
    return problems


def _at(summary: Summary, place: str) -> list[Verdict]:
    return [each.outcome.verdict for each in summary.judged if each.place == place]


async def make_repository(module: str, folder: Path) -> dict[str, str]:
    """Has a module of the demo world make its repository; returns `path` and `commit`. Raises CliError."""
    said = await _run(f"make-{folder.name}", [module, str(folder)], folder.parent)
    try:
        made = json.loads(said)
        return {name: str(made[name]) for name in ("path", "commit")}
    except (ValueError, KeyError, TypeError) as error:
        raise CliError(
            f"the demo's repository was not made: {said[:300]}",
            hint=f"run `python -m {module} FOLDER` to see why",
            code=ExitCode.RUN_FAILED,
        ) from error


async def _scan(repository: Path, log: Path) -> Path:
    options = ["--quiet", "--configfile", str(repository / "pyproject.toml"), "--exit-zero"]
    written = ["--format", "sarif", "--output", str(log)]
    await _run("bandit", ["bandit", *options, *written, "--recursive", str(repository)], log.parent)
    return log


async def _run(name: str, arguments: list[str], directory: Path) -> str:
    program = Program(name, ["-P", "-m", *arguments], inherited_environment())
    return await run_to_end(program, directory, timeout_s=STEP_TIMEOUT_S)
