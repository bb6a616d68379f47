"""Command injection: what a shell, or another program that runs what it is told, reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from services.offline_model.code_review.flagged import Flagged, judge_each, judge_values
from services.offline_model.code_review.library import Called
from services.offline_model.code_review.opinion import FALSE_POSITIVE, Opinion, undecided
from services.offline_model.code_review.texts import PLAIN_PROGRAMS, in_command
from services.offline_model.code_review.values import CHECKED, NUMBER, WORD, Value, constant, texts_of

_SHELLS = frozenset(
    {"os.system", "os.popen", "os.popen2", "os.popen3", "os.popen4", "subprocess.getoutput",
     "subprocess.getstatusoutput", "commands.getoutput", "commands.getstatusoutput",
     "asyncio.create_subprocess_shell", "popen2.popen2", "popen2.popen3", "popen2.popen4", "pty.spawn"}
)  # fmt: skip
_RUNS = frozenset(
    {"subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.Popen",
     "asyncio.create_subprocess_exec"}
)  # fmt: skip
# What decides what a command does, beside its arguments.
_SURROUNDINGS = ("env", "cwd", "preexec_fn")
# What a program is told beside its arguments, which some take for orders.
_FED = ("input", "stdin")
_REPLACES = re.compile(r"os\.(exec|spawn|posix_spawn)")
_READING_GIT = frozenset({"log", "show", "diff", "blame", "status"})


def command(flagged: Flagged) -> Opinion:
    """Command injection: what is run, and who decides it."""
    if flagged.is_imports:
        said = "The flagged line imports a module; nothing runs here."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said),))
    return judge_each(flagged, _run, "I see no command in the flagged lines.")


def partial_path(flagged: Flagged) -> Opinion:
    """A program without its folder: whether it is one."""

    def judge(flagged: Flagged, called: Called) -> Opinion | None:
        if not _starts_program(called):
            return None
        first = _told(called)
        program = first.items[0] if first is not None and first.items else first
        texts = texts_of(program) if program is not None else ()
        if texts and all(text and isinstance(text[0], str) and text[0].startswith("/") for text in texts):
            said = "The program is named with its folder."
            return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
        return undecided("Which program runs is decided by PATH, and who sets that was not shown.")

    return judge_each(flagged, judge, "I see no program that is started in the flagged lines.")


def _starts_program(called: Called) -> bool:
    return called.name in _SHELLS | _RUNS or _REPLACES.match(called.name) is not None


def _told(called: Called) -> Value | None:
    """Returns what a call is told to run."""
    if called.args:
        return called.args[0]
    return called.keywords.get("args", called.keywords.get("cmd", called.keywords.get("command")))


def _is_told_more(called: Called) -> bool:
    """Tells whether a program is given more than its arguments: by position, or on its standard input."""
    if called.name not in _RUNS or called.name == "asyncio.create_subprocess_exec":
        return False
    fed = [called.keywords[name] for name in _FED if name in called.keywords]
    return len(called.args) > 1 or any(one.truth is not False and (one.only is None or one.sources) for one in fed)


def _run(flagged: Flagged, called: Called) -> Opinion | None:
    if not _starts_program(called):
        return None
    told = _told(called)
    around = [called.keywords[name] for name in _SURROUNDINGS if name in called.keywords]
    is_foreign = any(origin.kind not in ("", CHECKED, NUMBER) for value in around for origin in value.sources)
    if is_foreign or _is_told_more(called):
        return undecided("What surrounds the command is not the program's own, and may make it do something else.")
    if called.spread or told is None:
        return (
            judge_values(flagged, called.node, [Value(called.sources)], "A command is run")
            if called.sources
            else (undecided("What the command is given was not shown."))
        )
    if _REPLACES.match(called.name):
        given = [Value(value.sources) for value in called.args[called.name.startswith("os.spawn") :]]
        return judge_values(flagged, called.node, given, "A program is run")
    if called.name == "asyncio.create_subprocess_exec":
        return _listed(flagged, called, called.args)
    shell = called.keywords.get("shell", constant(False))
    if called.name in _RUNS and shell.truth is False:
        if "executable" in called.keywords:
            told = Value(told.sources | called.keywords["executable"].sources)
        if told.items:
            return _listed(flagged, called, told.items)
        found = judge_values(flagged, called.node, [Value(told.sources)], "The command is run")
        is_text = told.texts is not None or told.constants is not None
        # A list that was not read item by item is no text that a shell would take apart.
        return found if is_text or found.verdict == FALSE_POSITIVE else undecided(found.justification, *found.needs)
    if told.items:
        told = Value(told.sources) if shell.truth is None else told.items[0]
    return judge_values(flagged, called.node, [told], "A shell reads the command", in_command)


def _listed(flagged: Flagged, called: Called, parts: Sequence[Value]) -> Opinion:
    """A list without a shell: the program itself, and what it may take for an order."""
    program = judge_values(flagged, called.node, [Value(parts[0].sources)], "A program is run that is decided")
    if program.verdict != FALSE_POSITIVE:
        return program
    rest = Value(frozenset(origin for part in parts[1:] for origin in part.sources))
    names = {PurePosixPath(str(text[0])).name for text in texts_of(parts[0]) if text}
    if not rest.sources or all(origin.kind in ("", CHECKED, NUMBER) for origin in rest.sources):
        return judge_values(flagged, called.node, [Value(parts[0].sources | rest.sources)], "The program runs")
    if not _reads_only(names, parts):
        found = judge_values(flagged, called.node, [rest], "A program is given arguments that it may take for orders")
        runs_them = any(name in ("sh", "bash", "dash", "zsh", "ksh", "cmd", "powershell") for name in names)
        return found if runs_them else undecided(found.justification, *found.needs)
    said = "No shell reads the command, the program is fixed, and no argument can be an option of it."
    return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),), program.needs)


def _reads_only(names: set[str], parts: Sequence[Value]) -> bool:
    """Tells whether the program is one that does no more than it is called for, and can't be given options."""
    plain = bool(names) and all(name in PLAIN_PROGRAMS for name in names)
    second = parts[1].only if len(parts) > 1 else None
    is_git = names == {"git"} and second is not None and second.value in _READING_GIT
    ended = False
    for part in parts[1:]:
        if part.only is not None and part.only.value == "--":
            ended = True
        elif not ended and any(origin.kind not in ("", CHECKED, NUMBER, WORD) for origin in part.sources):
            return False
    return plain or (is_git and ended)
