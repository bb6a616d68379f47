"""The flagged lines, and how to judge them by where their values come from."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE, Claim, Opinion, undecided
from services.offline_model.code_review.origins import CHECKED, CONSTANT, OUTSIDE, UNKNOWN, Origin, Scope, Tracer
from services.offline_model.code_review.shown import Shown, ShownFile


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
    def calls(self) -> list[ast.Call]:
        """The calls in the statement, outer ones first, those on the flagged lines before others."""
        found = [node for node in ast.walk(self.statement) if isinstance(node, ast.Call)]
        return sorted(found, key=lambda call: not self.first_line <= call.lineno <= self.last_line)

    def claim(self, text: str) -> Claim:
        """A claim on the flagged statement."""
        end = min(self.statement.end_lineno or self.statement.lineno, self.statement.lineno + 20)
        return Claim(text, self.file.path, self.statement.lineno, end)

    def words(self) -> set[str]:
        """The words in every name of the statement and of its function."""
        names = [node.id for node in ast.walk(self.statement) if isinstance(node, ast.Name)]
        names += [node.attr for node in ast.walk(self.statement) if isinstance(node, ast.Attribute)]
        names.append(self.scope.function.name if self.scope.function else "")
        return {word for name in names for word in re.split(r"[^a-z0-9]+", name.lower()) if word}


def judge_origins(flagged: Flagged, values: Sequence[ast.expr], weakness: str, what: str) -> Opinion:
    """Judges by where values come from."""
    tracer = Tracer(flagged.shown, weakness)
    origins = [origin for value in values for origin in tracer.trace(value, flagged.scope)]
    outside = [origin for origin in origins if origin.kind == OUTSIDE]
    unknown = [origin for origin in origins if origin.kind == UNKNOWN]
    if outside:
        claims = [flagged.claim(f"{what} here."), *_shown_at(outside, flagged)]
        return Opinion(TRUE_POSITIVE, 0.85, f"{what}, and {outside[0].what}.", tuple(claims))
    if unknown:
        needs = [origin.need for origin in unknown if origin.need]
        return undecided(f"{what}, but {unknown[0].what}, and that was not shown.", *needs)
    checked = [origin for origin in origins if origin.kind == CHECKED]
    if checked:
        claims = [flagged.claim(f"{what} here."), *_shown_at(checked, flagged)]
        return Opinion(FALSE_POSITIVE, 0.75, f"{what}, but {checked[0].what} first.", tuple(claims))
    elsewhere = [origin for origin in origins if origin.kind == CONSTANT and origin.line != flagged.statement.lineno]
    claims = [flagged.claim("Every value here is a constant of the program."), *_shown_at(elsewhere, flagged)]
    return Opinion(FALSE_POSITIVE, 0.8, "Every value that takes part is a constant of the program.", tuple(claims))


def keyword_is(call: ast.Call, name: str, *, value: object) -> bool:
    """Tells whether a call gives a keyword a constant."""
    return any(
        keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value is value
        for keyword in call.keywords
    )


def _shown_at(origins: Sequence[Origin], flagged: Flagged) -> list[Claim]:
    places = dict.fromkeys((origin.file, origin.line, origin.what) for origin in origins)
    own = range(flagged.statement.lineno, (flagged.statement.end_lineno or flagged.statement.lineno) + 1)
    return [
        Claim(f"Here {what}.", file, line, line)
        for file, line, what in list(places)[:3]
        if not (file == flagged.file.path and line in own)
    ]
