"""Checklists: what to look for in each kind of weakness, read from YAML and checked when the service starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from signalbox.v1 import sast_pb2

from services.kit.models.prompt_files import texts_of
from services.kit.text.problems import problems_of
from services.kit.text.yaml_text import parse_yaml
from services.runtime.agents.code_review.finding import language_of

GENERAL: Final = "general"
ANY: Final = "any"
_RUFF = re.compile(r"^S(?=\d{3}$)")
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Cwe = Annotated[str, StringConstraints(pattern=r"^CWE-[1-9][0-9]*$")]
Several = Annotated[list[Words], Field(min_length=1, max_length=20)]


class InvalidChecklistError(ValueError):
    """A checklist file that is broken, or checklists that contradict each other; the message names the file."""


class Checklist(BaseModel):
    """One kind of weakness. `languages` and `rules` narrow it down; no languages means all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    title: Words
    cwes: list[Cwe]
    rules: list[Words] = []
    languages: list[Name] = []
    look_for: Several
    questions: Several
    safe_patterns: dict[Name, Several]
    evidence_required: Several

    @model_validator(mode="after")
    def _is_reachable(self) -> Self:
        if self.name != GENERAL and not self.cwes:
            raise ValueError("cwes: a checklist needs at least one CWE")
        unknown = set(self.safe_patterns) - {ANY, *self.languages} if self.languages else set()
        if unknown:
            raise ValueError(f"safe_patterns: {', '.join(sorted(unknown))} is none of its languages")
        return self

    def covers(self, language: str) -> bool:
        """Tells whether it is about code in a language; an unknown language fits all."""
        return not self.languages or not language or language in self.languages

    def shown(self, language: str) -> dict[str, Any]:
        """Returns the checklist as data of a prompt, with what is safe in this language."""
        return {
            "title": self.title,
            "look_for": self.look_for,
            "questions": self.questions,
            "safe_patterns": [*self.safe_patterns.get(ANY, ()), *self.safe_patterns.get(language, ())],
            "evidence_required": self.evidence_required,
        }


class Checklists:
    """All checklists, and which one a finding calls for."""

    def __init__(self, checklists: Iterable[Checklist]) -> None:
        self._all = list(checklists)
        self._general = next((one for one in self._all if one.name == GENERAL), None)
        if self._general is None:
            raise InvalidChecklistError(f"there is no checklist {GENERAL!r} to fall back to")
        _check_overlaps(self._all)

    def __iter__(self) -> Iterator[Checklist]:
        return iter(self._all)

    def select(self, finding: sast_pb2.Finding) -> Checklist:
        """Returns the checklist for a finding's CWE and language; else for its rule; else the general one."""
        language = language_of(finding.location.file)
        fitting = [one for one in self._all if one.covers(language)]
        by_cwe = (one for one in fitting if finding.cwe in one.cwes)
        by_rule = (one for one in fitting if any(_names(rule, finding.rule_id) for rule in one.rules))
        assert self._general is not None  # noqa: S101 - checked when made
        return next(by_cwe, None) or next(by_rule, None) or self._general


def load_checklists(texts: Mapping[str, str] | None = None) -> Checklists:
    """Reads checklists by the names of their files, by default the ones in force. Raises InvalidChecklistError."""
    given = texts_of(__package__, ".yaml") if texts is None else texts
    read, problems = list[Checklist](), list[str]()
    for name, text in sorted(given.items()):
        try:
            read.append(_read(name, text))
        except InvalidChecklistError as error:
            problems.append(str(error))
    if problems:
        raise InvalidChecklistError(*problems)
    return Checklists(read)


@cache
def _read(file: str, text: str) -> Checklist:
    try:
        checklist = Checklist.model_validate(parse_yaml(text))
    except yaml.YAMLError as error:
        raise InvalidChecklistError(f"{file}: not YAML: {error}") from error
    except ValidationError as error:
        problems = "; ".join(f"{problem.place or 'file'}: {problem.what}" for problem in problems_of(error))
        raise InvalidChecklistError(f"{file}: {problems}") from error
    if file != f"{checklist.name}.yaml":
        raise InvalidChecklistError(f"{file}: its name is {checklist.name!r}; the file must be named for it")
    return checklist


def _check_overlaps(checklists: Sequence[Checklist]) -> None:
    for index, one in enumerate(checklists):
        for other in checklists[index + 1 :]:
            shared = set(one.cwes) & set(other.cwes)
            meet = not one.languages or not other.languages or set(one.languages) & set(other.languages)
            if shared and meet:
                raise InvalidChecklistError(
                    f"{one.name}.yaml and {other.name}.yaml both claim {', '.join(sorted(shared))}"
                )


def _names(rule: str, rule_id: str) -> bool:
    """Tells whether a rule's id names a kind of rule, as whole words; Ruff's S602 is Bandit's B602."""
    return f"-{_words(rule)}-" in f"-{_words(_RUFF.sub('B', rule_id))}-"


def _words(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
