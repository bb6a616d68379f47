"""The flagged lines, and how to judge them by where their values come from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE, Claim, Opinion, undecided
from services.offline_model.code_review.origins import CHECKED, CONSTANT, OUTSIDE, UNKNOWN, Origin, Scope, Tracer
from services.offline_model.code_review.shown import Shown, ShownFile

_NOT_DEPLOYED = re.compile(r"(^|/)(tests?|testing|examples?|docs)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")


@dataclass(frozen=True)
class Flagged:
    """The flagged statement, where it stands, and what was shown around it."""

    shown: Shown
    file: ShownFile
    first_line: int
    last_line: int
    statement: ast.stmt
    scope: Scope

    @property
    def nodes(self) -> list[ast.AST]:
        """What the finding can be about: the statement, or the head of one that holds others."""
        return [node for part in _head(self.statement) for node in ast.walk(part)]

    @property
    def calls(self) -> list[ast.Call]:
        """The calls on the flagged lines, outer ones first; without any, those of the statement."""
        found = [node for node in self.nodes if isinstance(node, ast.Call)]
        on = [one for one in found if one.lineno <= self.last_line and self.first_line <= (one.end_lineno or 0)]
        return on or found

    def name_of(self, call: ast.Call) -> str:
        """The full name of what a call calls, as far as imports tell."""
        return self.file.full_name(call.func)

    def claim(self, text: str) -> Claim:
        """A claim on the flagged statement."""
        first = self.statement.lineno
        last = max((getattr(node, "end_lineno", first) or first for node in self.nodes), default=first)
        return Claim(text, self.file.path, first, min(last, first + 20))

    def words(self, but: frozenset[str] = frozenset()) -> set[str]:
        """The words in every name of the statement and of its function, but those of functions of some modules."""
        apis = {part for call in self.calls if self._module_of(call) in but for part in _chain(call)}
        nodes = [node for node in self.nodes if node not in apis]
        names = [node.id for node in nodes if isinstance(node, ast.Name)]
        names += [node.attr for node in nodes if isinstance(node, ast.Attribute)]
        names.append(self.scope.function.name if self.scope.function else "")
        return {word for name in names for word in re.split(r"[^a-z0-9]+", name.lower()) if word}

    def _module_of(self, call: ast.Call) -> str:
        return self.name_of(call).partition(".")[0]

    @property
    def is_test(self) -> bool:
        """Whether the file's path says that nobody deploys it."""
        return _NOT_DEPLOYED.search(self.file.path) is not None


def judge_origins(flagged: Flagged, values: Sequence[ast.expr], weakness: str, what: str) -> Opinion:
    """Judges by where values come from."""
    tracer = Tracer(flagged.shown, weakness)
    origins = [origin for value in values for origin in tracer.trace(value, flagged.scope)]
    outside = [origin for origin in origins if origin.kind == OUTSIDE]
    unknown = [origin for origin in origins if origin.kind == UNKNOWN]
    others = tuple(dict.fromkeys(origin.need for origin in origins if origin.need))
    if outside:
        claims = [flagged.claim(f"{what} here."), *_shown_at(outside, flagged)]
        return Opinion(TRUE_POSITIVE, 0.85, f"{what}, and {outside[0].what}.", tuple(claims))
    if unknown:
        needs = [origin.need for origin in unknown if origin.need]
        return undecided(f"{what}, but {unknown[0].what}, and that was not shown.", *needs)
    checked = [origin for origin in origins if origin.kind == CHECKED]
    if checked:
        claims = [flagged.claim(f"{what} here."), *_shown_at(checked, flagged)]
        return Opinion(FALSE_POSITIVE, 0.75, f"{what}, but {checked[0].what} first.", tuple(claims), others)
    if not origins:
        return undecided(f"{what}, and I can't tell where they come from.")
    elsewhere = [origin for origin in origins if origin.kind == CONSTANT and origin.line != flagged.statement.lineno]
    claims = [flagged.claim("Every value here is a constant of the program."), *_shown_at(elsewhere, flagged)]
    said = "Every value that takes part is a constant of the program."
    return Opinion(FALSE_POSITIVE, 0.8, said, tuple(claims), others)


def keyword_is(call: ast.Call, name: str, *, value: object) -> bool:
    """Tells whether a call gives a keyword a constant."""
    return any(
        keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value is value
        for keyword in call.keywords
    )


def _chain(call: ast.Call) -> Iterator[ast.AST]:
    """Yields the names of what a call calls, without what it is given."""
    node: ast.AST = call.func
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        yield node
        node = node.func if isinstance(node, ast.Call) else node.value
    yield node


def _head(statement: ast.stmt) -> list[ast.AST]:
    """Returns the parts of a statement that stand before the statements it holds."""
    return [
        part
        for name, field in ast.iter_fields(statement)
        if name not in {"body", "orelse", "finalbody", "handlers", "cases"} or isinstance(statement, ast.Expr)
        for part in (field if isinstance(field, list) else [field])
        if isinstance(part, ast.AST)
    ]


def _shown_at(origins: Sequence[Origin], flagged: Flagged) -> list[Claim]:
    places = dict.fromkeys((origin.file, origin.line, origin.what) for origin in origins)
    own = range(flagged.statement.lineno, (flagged.statement.end_lineno or flagged.statement.lineno) + 1)
    return [
        Claim(f"Here {what}.", file, line, line)
        for file, line, what in list(places)[:3]
        if not (file == flagged.file.path and line in own)
    ]
