"""The flagged lines: everything on them that runs, with what it is given on every way that leads there."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from services.offline_model.code_review.library import HARMLESS, Called, is_log, library_value
from services.offline_model.code_review.opinion import (
    FALSE_POSITIVE,
    NEEDS_REVIEW,
    TRUE_POSITIVE,
    Evidence,
    Need,
    Opinion,
    undecided,
)
from services.offline_model.code_review.program import Program
from services.offline_model.code_review.shown import Shown, ShownFile, head_of
from services.offline_model.code_review.values import CHECKED, NUMBER, OUTSIDE, UNKNOWN, Origin, Value, join

_NOT_DEPLOYED = re.compile(r"(^|/)(tests?|testing|examples?|docs)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")
_HARMLESS_KINDS = frozenset({"", CHECKED, NUMBER})
# Whether a kind of origin does no harm where it stands in a value.
Allows = Callable[[Origin, Value], bool]
JudgeCall = Callable[["Flagged", Called], Opinion | None]
JudgeNode = Callable[["Flagged", ast.expr, Value], Opinion | None]


@dataclass(frozen=True)
class Flagged:
    """The flagged statements, where they stand, and what was shown around them."""

    shown: Shown
    file: ShownFile
    first_line: int
    last_line: int
    statements: tuple[ast.stmt, ...]
    weakness: str

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """What the finding can be about: the statements, or the heads of those that hold others."""
        return [node for statement in self.statements for part in head_of(statement) for node in ast.walk(part)]

    @cached_property
    def calls(self) -> list[ast.Call]:
        """The calls of the flagged statements, outer ones first."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def program(self) -> Program:
        """The program, run to the flagged lines. Raises TooManyWays."""
        program = Program(self.shown, self.weakness)
        program.watch(self.nodes)
        functions = {id(one): one for one in (self.file.function_at(node.lineno) for node in self.statements)}
        around = [node for one in functions.values() if one is not None for node in ast.walk(one)]
        program.watch(node for node in around if isinstance(node, ast.Call) and id(node) not in program.watched)
        for function in functions.values():
            program.run(self.file, function)
        return program

    @property
    def is_imports(self) -> bool:
        """Whether nothing but imports is flagged."""
        return all(isinstance(statement, ast.Import | ast.ImportFrom) for statement in self.statements)

    @property
    def is_dead(self) -> bool:
        """Whether no way leads to anything that is flagged."""
        expressions = [node for node in self.nodes if id(node) in self.program.watched and isinstance(node, ast.expr)]
        loaded = [node for node in expressions if not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)]
        tops = [node for node in loaded if isinstance(node, ast.Call | ast.Name | ast.Constant | ast.JoinedStr)]
        return bool(tops) and not any(self.program.watched[id(node)] for node in loaded)

    def is_reached(self, statement: ast.stmt) -> bool:
        """Tells whether a way leads to a statement near the flagged ones, by its calls. Raises TooManyWays."""
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        known = [self.program.watched[id(node)] for node in calls if id(node) in self.program.watched]
        return not known or any(known)

    @property
    def words(self) -> set[str]:
        """The words in every name of the statements and of their function."""
        names = [node.id for node in self.nodes if isinstance(node, ast.Name)]
        names += [node.attr for node in self.nodes if isinstance(node, ast.Attribute)]
        function = self.file.function_at(self.first_line)
        return words_of([*names, function.name if function else ""])

    @property
    def is_test(self) -> bool:
        """Whether the file's path says that nobody deploys it."""
        return _NOT_DEPLOYED.search(self.file.path) is not None

    def value(self, node: ast.expr) -> Value | None:
        """Returns what an expression may hold; None when no way leads there."""
        found = self.program.watched.get(id(node))
        return join(found) if found else None

    def evidence(self, claim: str, node: ast.AST | None = None) -> Evidence:
        """A claim about the flagged lines, or about the flagged statement around a node."""
        around = [one for one in self.statements if node is not None and any(node is part for part in ast.walk(one))]
        statement = around[0] if around else self.statements[0]
        heads = [part for top in head_of(statement) for part in ast.walk(top)]
        first = min([statement.lineno, *(getattr(part, "lineno", statement.lineno) for part in heads)])
        last = max((getattr(part, "end_lineno", first) or first for part in heads), default=first)
        return Evidence(claim, self.file.path, first, max(first, min(last, first + 20)))


def words_of(names: Iterable[str]) -> set[str]:
    """Returns the words that names are made of."""
    parts = (re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower() for name in names)
    return {word for part in parts for word in re.split(r"[^a-z0-9]+", part) if word}


def judge_each(
    flagged: Flagged,
    judge_call: JudgeCall,
    nothing: str,
    *,
    judge_nodes: JudgeNode | None = None,
    by_what_flows: bool = True,
) -> Opinion:
    """Judges everything flagged that a finding may be about; one harm is enough, and one doubt is too.

    by_what_flows: the harm is in what a call is given, so that any call that no rule knows may do it. Raises
    TooManyWays.
    """
    if flagged.is_dead:
        said = "No way leads to the flagged line: a condition before it never holds."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said),))
    found: list[Opinion] = []
    others: list[Opinion] = []
    for call in flagged.calls:
        for called in flagged.program.calls[id(call)]:
            opinion = judge_call(flagged, called)
            if opinion is not None:
                found.append(opinion)
            elif called.name == "?" or (by_what_flows and _may_be_another(flagged, called)):
                what = called.method if called.name != "?" else "a function that has another name here"
                others.append(undecided(f"What {what}() does with what it is given was not shown."))
    if judge_nodes is not None:
        for node in flagged.nodes:
            value = flagged.value(node) if isinstance(node, ast.expr) else None
            opinion = judge_nodes(flagged, node, value) if value is not None and isinstance(node, ast.expr) else None
            found += [opinion] if opinion is not None else []
    return merged([*found, *others]) if found else undecided(nothing, *(need for one in others for need in one.needs))


def merged(opinions: Sequence[Opinion]) -> Opinion:
    """Returns what several opinions come to together."""
    for verdict in (TRUE_POSITIVE, NEEDS_REVIEW):
        of_verdict = [opinion for opinion in opinions if opinion.verdict == verdict]
        if of_verdict:
            needs = tuple(dict.fromkeys(need for one in of_verdict for need in one.needs))
            first = of_verdict[0]
            return Opinion(verdict, first.justification, first.evidence, needs)
    evidence = tuple(dict.fromkeys(each for opinion in opinions for each in opinion.evidence))[:8]
    needs = tuple(dict.fromkeys(need for opinion in opinions for need in opinion.needs))
    said = " ".join(dict.fromkeys(opinion.justification for opinion in opinions))
    return Opinion(FALSE_POSITIVE, said, evidence, needs)


def judge_values(
    flagged: Flagged, node: ast.AST, values: Sequence[Value], what: str, allows: Allows | None = None
) -> Opinion:
    """Judges by where values come from; `allows` says which origins besides the program's own do no harm."""
    pairs = [(origin, value) for value in values for origin in sorted(value.sources, key=_order)]
    harmful = [(origin, value) for origin, value in pairs if origin.kind not in _HARMLESS_KINDS]
    harmful = [(origin, value) for origin, value in harmful if allows is None or not allows(origin, value)]
    outside = [origin for origin, _ in harmful if origin.kind == OUTSIDE]
    sure = [origin for origin in outside if not origin.doubted]
    needs: tuple[Need, ...] = tuple(dict.fromkeys(origin.need for origin, _ in pairs if origin.need))
    if sure:
        evidence = [flagged.evidence(f"{what} here.", node), *_shown_at(sure, flagged, node)]
        return Opinion(TRUE_POSITIVE, f"{what}, and {sure[0].what}.", tuple(evidence))
    if outside:
        said = f"{what}, and {outside[0].what}; whether what is done to it on the way is enough, I can't judge."
        return undecided(said, *needs)
    if harmful:
        first = harmful[0][0]
        missing = "and that was not shown" if first.kind == UNKNOWN else "and that is no protection here for sure"
        return undecided(f"{what}, but {first.what}, {missing}.", *needs)
    checks = [origin for origin, _ in pairs if origin.kind and origin.kind != UNKNOWN]
    if checks:
        evidence = [flagged.evidence(f"{what} here.", node), *_shown_at(checks, flagged, node)]
        return Opinion(FALSE_POSITIVE, f"{what}, but {checks[0].what} first.", tuple(evidence), needs)
    said = "Every value that takes part is the program's own, on every way that leads here."
    return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, node),), needs)


def _order(origin: Origin) -> tuple[str, int, str]:
    return (origin.file, origin.line, origin.what)


def _may_be_another(flagged: Flagged, called: Called) -> bool:
    """Tells whether a call that no rule knows may do what the finding is about."""
    if called.name in HARMLESS or is_log(called) or flagged.program.is_shown(called.node, flagged.file):
        return False
    risky = [one for part in called.given for one in part.sources if one.kind not in _HARMLESS_KINDS]
    return bool(risky) and library_value(called, flagged.weakness, flagged.file) is None


def _shown_at(origins: Sequence[Origin], flagged: Flagged, node: ast.AST) -> list[Evidence]:
    own = flagged.evidence("", node)
    places = dict.fromkeys((origin.file, origin.line, origin.what) for origin in origins)
    return [
        Evidence(f"Here {what}.", file, line, line)
        for file, line, what in list(places)[:3]
        if line and not (file == own.file and own.first_line <= line <= own.last_line)
    ]
