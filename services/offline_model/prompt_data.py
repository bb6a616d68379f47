"""What prompts hold, as data: the only module that reads them, and it reads none of their words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.kit.models.prompts import read_data

# A line of a file, as prompts and tools show it.
NUMBERED: Final = re.compile(r"^\s*(?P<number>\d+) \| ?(?P<text>.*)$")


class PromptData(BaseModel):
    """Data of a prompt, or a part of it; what a skill has no use for is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)


DataT = TypeVar("DataT", bound=PromptData)


class Example(PromptData):
    """A question, and the SQL that answers it."""

    question: str
    sql: str


class _Turn(PromptData):
    question: str = ""
    said: str = ""


class TextToScreen(PromptData):
    """A text to let through or to block."""

    kind: str
    text: str
    caller: str
    restricted_tables: tuple[str, ...] = ()
    earlier_turns: tuple[_Turn, ...] = ()


class DataQuestion(PromptData):
    """A question to a database; a line of `tables` for each, examples at hand, and notes on what words mean."""

    question: str
    tables: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    notes: tuple[str, ...] = ()
    earlier_turns: tuple[_Turn, ...] = ()


class ResultToWord(PromptData):
    """A question with the result of its query."""

    question: str
    sql_query: str
    result: tuple[str, ...]


class _Clarification(PromptData):
    about: str = ""
    answer: str


class Step(PromptData):
    """An operation on the graph that was done."""

    tool: str
    arguments: dict[str, Any]


class GraphGoal(PromptData):
    """A goal for a graph, and what has come of it; `went_wrong` has the reason of a failure as a code."""

    goal: str
    clarifications: tuple[_Clarification, ...] = ()
    done: tuple[Step, ...] = ()
    advice: tuple[str, ...] = ()
    went_wrong: Mapping[str, str] = {}


class Findings(PromptData):
    """What queries of a graph found, one text each."""

    goal: str
    results: tuple[str, ...] = Field(min_length=1)


class Incident(PromptData):
    """An incident as it was reported."""

    service: str
    title: str
    started_at: datetime


class IncidentToExplain(PromptData):
    """An incident; `problems` refuted an answer."""

    incident: Incident
    problems: tuple[str, ...] = ()


class _Evidence(PromptData):
    graph_path: dict[str, Any] | None = None
    found: str = ""


class CauseToValidate(PromptData):
    """What is said to be the cause of an incident, with what was found where its evidence was looked up."""

    incident: Mapping[str, Any]
    root_cause: str
    evidence: tuple[_Evidence, ...] = ()


class Finding(PromptData):
    """What a static analyser reported."""

    rule: str = ""
    cwe: str = ""
    file: str
    first_line: int
    last_line: int


class CodePart(PromptData):
    """Lines of a file, each as `number | text`; of the case that is judged, nothing says how many the file has."""

    file: str
    first_line: int = 0
    last_line: int = 0
    total_lines: int = 0
    code: tuple[str, ...] = ()

    @property
    def numbered(self) -> dict[int, str]:
        """The lines by their numbers."""
        return {int(found["number"]): found["text"] for found in map(NUMBERED.match, self.code) if found}


class DraftedClaim(PromptData):
    """What lines of a file, `file:first-last`, are said to show."""

    claim: str
    lines: str


class Draft(PromptData):
    """A verdict that is to be judged, with the claims that it rests on."""

    verdict: str
    justification: str = ""
    claims: tuple[DraftedClaim, ...] = ()


class ToolUse(PromptData):
    """A tool call that was made; arguments that were too long are a text."""

    tool: str
    arguments: dict[str, Any] | str = ""


class FindingToReview(PromptData):
    """A finding with all that is known of it; `task` says what of a judge, and `read` what a triage has read."""

    finding: Finding
    code_bank: tuple[CodePart, ...] = ()
    lines_left_out: int = 0
    read: tuple[CodePart, ...] = ()
    draft: Draft | None = None
    task: str = ""


class ResearchSoFar(PromptData):
    """The tool calls that research made."""

    tool_calls: tuple[ToolUse, ...] = ()


def read_prompt(texts: Iterable[str]) -> dict[str, Any]:
    """Returns the data of messages together; where two say the same, the later one counts."""
    return {name: value for text in texts for name, value in read_data(text).items()}


def as_prompt(kind: type[DataT], data: Mapping[str, Any]) -> DataT | None:
    """Returns the data of a prompt as a skill takes it; None where it is another skill's, or none."""
    try:
        return kind.model_validate(data)
    except ValidationError:
        return None
