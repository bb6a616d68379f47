"""Command injection: what a shell, or another program that runs what it is told, reads."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from services.offline_model.code_review.flagged import Flagged, judge_origins, keyword_is
from services.offline_model.code_review.opinion import FALSE_POSITIVE, Opinion, undecided
from services.offline_model.code_review.origins import OUTSIDE, Tracer

SHELL_CALLS = frozenset(
    {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "commands.getoutput",
     "commands.getstatusoutput"}
)  # fmt: skip
# Programs that run what their arguments say.
RUNNERS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "cmd", "cmd.exe", "powershell", "pwsh", "ssh", "sudo", "su", "env", "xargs",
     "find", "eval", "perl", "ruby", "node", "php", "awk", "sed", "nohup", "time", "watch", "docker", "kubectl"}
)  # fmt: skip
_RUNS_NEXT = re.compile(r"-{1,2}(c|e|r|x|eval|exec|command|execute|run)$", re.IGNORECASE)


def command(flagged: Flagged) -> Opinion:
    """Command injection: what is run, and who decides it."""
    if isinstance(flagged.statement, ast.Import | ast.ImportFrom):
        said = "The flagged line imports a module; nothing runs here."
        return Opinion(FALSE_POSITIVE, 0.8, said, (flagged.claim(said),))
    for call in flagged.calls:
        name = flagged.name_of(call)
        if name.startswith(("os.exec", "os.spawn")):
            return judge_origins(flagged, call.args[name.startswith("os.spawn") :], "command", "A program is run")
        if not call.args or not (name in SHELL_CALLS or name.startswith("subprocess.")):
            continue
        shell = next((keyword.value for keyword in call.keywords if keyword.arg == "shell"), None)
        without = shell is None or keyword_is(call, "shell", value=False)
        first = call.args[0]
        if name not in SHELL_CALLS and without and isinstance(first, ast.List | ast.Tuple) and first.elts:
            return _listed(flagged, first.elts)
        what = "The command is run" if name not in SHELL_CALLS and without else "A shell reads the command"
        return judge_origins(flagged, [first], "command", what)
    return undecided("I see no command in the flagged lines.")


def partial_path(flagged: Flagged) -> Opinion:
    """A program without its folder: whether it is one."""
    for call in flagged.calls:
        first = call.args[0] if call.args else None
        first = first.elts[0] if isinstance(first, ast.List | ast.Tuple) and first.elts else first
        if isinstance(first, ast.Constant) and str(first.value).startswith("/"):
            said = "The program is named with its folder."
            return Opinion(FALSE_POSITIVE, 0.8, said, (flagged.claim(said),))
    return undecided("Which program runs is decided by PATH, and who sets that was not shown.")


def _listed(flagged: Flagged, parts: Sequence[ast.expr]) -> Opinion:
    """A list without a shell: the program itself, and what it may take for an order."""
    orders = [parts[0], *_orders(parts)]
    if len(orders) > 1:
        return judge_origins(flagged, orders, "command", "A program runs what it is told")
    program = judge_origins(flagged, orders, "command", "The program runs without a shell, and which one is decided")
    if program.verdict != FALSE_POSITIVE:
        return program
    if _may_be_options(flagged, parts[1:]):
        return undecided(
            "No shell reads the command, but what comes from outside may pass for an option of the program."
        )
    said = "No shell reads the command, and which program runs is a constant."
    claims = (flagged.claim(said), *program.claims[1:])
    return Opinion(FALSE_POSITIVE, 0.7, said, claims, program.needs)


def _orders(parts: Sequence[ast.expr]) -> list[ast.expr]:
    """Returns the arguments that the program runs."""
    program = parts[0].value if isinstance(parts[0], ast.Constant) else ""
    if PurePosixPath(str(program)).name.lower() in RUNNERS or str(program).rpartition("/")[2].startswith("python"):
        return list(parts[1:])
    return [
        after
        for before, after in itertools.pairwise(parts)
        if isinstance(before, ast.Constant)
        and _RUNS_NEXT.match(str(before.value))
        and not isinstance(after, ast.Constant)
    ]


def _may_be_options(flagged: Flagged, parts: Sequence[ast.expr]) -> bool:
    """Tells whether an argument from outside may begin with a dash."""
    tracer = Tracer(flagged.shown, "command")
    for part in parts:
        if isinstance(part, ast.Constant) and part.value == "--":
            return False
        if not _begins_plainly(part) and any(origin.kind == OUTSIDE for origin in tracer.trace(part, flagged.scope)):
            return True
    return False


def _begins_plainly(part: ast.expr) -> bool:
    first: ast.expr = part.values[0] if isinstance(part, ast.JoinedStr) and part.values else part
    while isinstance(first, ast.BinOp):
        first = first.left
    return isinstance(first, ast.Constant) and bool(str(first.value)) and not str(first.value).startswith(("-", "%"))
