"""The mechanical checks of a draft, which no model can talk its way around."""

from __future__ import annotations

import time
from collections.abc import Set

from services.evaluator.bank import NO_DEFINITION, CodeBank, SourceFile, normal_path
from services.evaluator.citations import Problem, Reason, check_citation
from services.evaluator.code_lines import UNSURE_KIND
from services.evaluator.connections import Connections
from services.evaluator.draft import Draft, Finding, Verdict
from services.evaluator.metrics import CHECK_DURATION, PROBLEMS
from services.evaluator.words import WHOLE_DRAFT, check_words


def check_draft(draft: Draft, finding: Finding, bank: CodeBank) -> list[Problem]:
    """Returns everything that is wrong with a draft: at most one problem for each claim, and those of the whole."""
    start = time.perf_counter()
    settled = draft.verdict is not Verdict.NEEDS_REVIEW
    problems = _check_whole(draft, finding, bank) if settled else []
    connections = Connections(bank, finding.places)
    cited: set[int] = set()
    beside: set[tuple[str, int]] = set()
    for index, evidence in enumerate(draft.evidence):
        citation = check_citation(index, evidence, finding, bank)
        flagged = finding.flagged_lines(evidence.file)
        cited |= citation.covers & flagged
        beside |= {(normal_path(evidence.file), number) for number in citation.covers - flagged}
        problem = citation.problem
        if problem is None and not connections.reach(evidence.span):
            problem = Problem(
                index,
                Reason.UNCONNECTED,
                f"{evidence.cited} has no visible connection to {_shown(finding)}: cite the flagged code, the "
                "definition around it, or code that it calls or that calls it; fetch what lies between, if there is "
                "a connection.",
            )
        if problem is not None:
            problems.append(problem)
    if settled and draft.evidence and not cited and _flags_code(finding, bank):
        message = f"No claim quotes the flagged code, {_shown(finding)}: a verdict is about that line before all."
        problems.append(Problem(WHOLE_DRAFT, Reason.FLAGGED_NOT_CITED, message))
    if draft.verdict is Verdict.FALSE_POSITIVE and cited:
        problems += _check_supply(finding, bank, beside)
    if settled:
        # Where a claim fails by its code, its words wait.
        failed = {problem.index for problem in problems}
        problems += [problem for problem in check_words(draft, finding, bank) if problem.index not in failed]
    for found in problems:
        PROBLEMS.labels(found.reason).inc()
    CHECK_DURATION.observe(time.perf_counter() - start)
    return problems


def _check_whole(draft: Draft, finding: Finding, bank: CodeBank) -> list[Problem]:
    problems = []
    if not draft.evidence:
        message = f"{draft.verdict} needs at least one claim that cites code: say which lines show it."
        problems.append(Problem(WHOLE_DRAFT, Reason.NO_EVIDENCE, message))
    file = bank.file(finding.location.file)
    if file is None or _unread(finding, file):
        message = f"The flagged code {_shown(finding)} was not read in full: fetch it before settling on a verdict."
        problems.append(Problem(WHOLE_DRAFT, Reason.NOT_IN_CODE_BANK, message))
    return problems


def _check_supply(finding: Finding, bank: CodeBank, beside: Set[tuple[str, int]]) -> list[Problem]:
    """Finds that the values of the flagged lines come from lines that were read, and no line cited bears on them.

    What is cited of another definition does: it is connected, and is involved.
    """
    file = bank.file(finding.location.file)
    if file is None:
        return []
    flagged = finding.flagged_lines(file.path)
    if any(file.lines[number].is_cut for number in flagged if number in file.lines):
        message = f"{_shown(finding)} goes on behind what a tool shows of it: nobody read that it is harmless."
        return [Problem(WHOLE_DRAFT, Reason.UNREAD, message)]
    flow = _Flow(file, flagged)
    first, _ = file.definition_around(min(flagged))
    if (first or not flow.supplying) and (missing := file.missing(max(first, 1), min(flagged))):
        message = f"What goes before {_shown(finding)} from line {missing[0]} on was not read: fetch it, for its value."
        return [Problem(WHOLE_DRAFT, Reason.NOT_IN_CODE_BANK, message)]
    if not flow.supplying or any(path != file.path or flow.is_borne_on_by(number) for path, number in beside):
        return []
    message = (
        f"{_shown(finding)} shows what is flagged, and not why it is harmless: cite the line that supplies or stops "
        f"its value, such as {file.path}:{flow.supplying[-1]}."
    )
    return [Problem(WHOLE_DRAFT, Reason.SUPPLY_NOT_CITED, message)]


class _Flow:
    """Where the values of the flagged lines come from, by the names that lines hold and set.

    supplying: the lines of the definition around, or of the module, that give a name of the flagged lines its value.
    """

    def __init__(self, file: SourceFile, flagged: frozenset[int]) -> None:
        self._file = file
        self._around = file.definition_around(min(flagged))
        self._definitions = file.definitions_around()
        self._lines = {number: line for number, line in sorted(file.lines.items()) if self._is_in_reach(number)}
        read = [file.lines[number] for number in flagged if number in file.lines]
        names = frozenset[str]().union(*(line.names for line in read))
        # What keeps it from running need hold no name: `if False`.
        self._never_runs = any(line.never_runs for line in read)
        first = self._around[0]
        self.supplying = [
            number
            for number, line in self._lines.items()
            if number not in flagged and line.names & names and (number == first or line.sets & names)
        ]
        self._values = self._values_of(names)

    def is_borne_on_by(self, number: int) -> bool:
        """Tells whether a line sets, takes or tests what the flagged lines use, or is of another definition."""
        if self._never_runs or number not in self._lines:
            return True
        return not self._lines[number].names.isdisjoint(self._values)

    def _is_in_reach(self, number: int) -> bool:
        """Tells whether a line is of the module, or of a definition around the flagged lines and of no inner one."""
        first, last = self._definitions[number]
        return (first, last) == NO_DEFINITION or first <= self._around[0] <= self._around[1] <= last

    def _values_of(self, names: frozenset[str]) -> frozenset[str]:
        """Returns the names that the flagged lines use, and those that their values are made of or tested by."""
        given = self._lines[self._around[0]].names if self._around[0] in self._lines else frozenset[str]()
        given |= frozenset[str]().union(*(line.sets for line in self._lines.values()))
        # What a module's line names and sets not is an import, and what is defined is called: neither is a value.
        lent = {name for name, _ in self._file.definitions.values()}
        for number, line in self._lines.items():
            if not line.sets and self._definitions[number] == NO_DEFINITION:
                lent |= line.names
        others = lent - given
        lines_of: dict[str, list[int]] = {}
        for number, line in self._lines.items():
            for name in line.sets or line.names:
                lines_of.setdefault(name, []).append(number)
        values, came_to, waiting = set[str](), set[int](), [*(names - others)]
        while waiting:
            values.add(name := waiting.pop())
            for number in lines_of.pop(name, ()):
                if number not in came_to:
                    came_to.add(number)
                    waiting += self._lines[number].names - others
        return frozenset(values)


def _unread(finding: Finding, file: SourceFile) -> list[int]:
    """Returns the flagged lines that were not read; the first counts even when the file has no such line."""
    flagged = finding.flagged_lines(file.path)
    first = min(flagged)
    return file.missing(first, max(first, min(max(flagged), file.total_lines)))


def _flags_code(finding: Finding, bank: CodeBank) -> bool:
    """Tells whether there may be code to quote on the flagged lines, as far as they were read."""
    file = bank.file(finding.location.file)
    lines = file.lines if file else {}
    flagged = (lines[number] for number in finding.flagged_lines(finding.location.file) if number in lines)
    # What nobody can tell from a comment may be the code that the finding is about: no verdict stands without it.
    return any(line.carries or line.unread or UNSURE_KIND in line.kinds for line in flagged)


def _shown(finding: Finding) -> str:
    return f"{finding.location.file}:{finding.location.first_line}"
