"""What models are asked for: a goal's reading and a plan's operations, handed in as arguments of a tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from services.kit.statements.check import unsupported
from services.kit.statements.material import Material
from services.runtime.agents.structured import Submission, Submitted

SUBMIT_GOAL: Final = "submit_goal"
SUBMIT_PLAN: Final = "submit_plan"
_MOST_OPERATIONS: Final = 25
_MOST_TEXTS: Final = 20
# They go into later prompts, and before people.
Words = Annotated[str, Field(max_length=500)]


class ToolSignature(Submitted):
    """One call of a tool."""

    tool: str = Field(min_length=1, max_length=128, description="Name of the tool.")
    arguments: dict[str, Any] = Field(description="Its arguments, by name.")


class Contradiction(Submitted):
    """Parts of a goal that can't all hold."""

    about: str = Field(min_length=1, max_length=2000, description="What contradicts what, in a sentence.")
    choices: list[Words] = Field(min_length=2, max_length=10, description="What a person can choose between, in words.")


class GoalSpec(Submitted):
    """What a goal asks for."""

    intent: str = Field(min_length=1, max_length=500, description="What is wanted, in a few words.")
    effect: Literal["reads", "writes"] | None = Field(
        default=None, description="writes where anything is to be created, changed or deleted; else reads."
    )
    entities: list[Words] = Field(default=[], max_length=100, description="Nodes and edges that are named.")
    constraints: list[Words] = Field(default=[], max_length=_MOST_TEXTS, description="What must hold besides.")
    complexity: Literal["simple", "complex"] = Field(description="simple: one call of one tool reaches it.")
    confidence: float = Field(ge=0, le=1, description="How sure you are of what is wanted, from 0 to 1.")
    contradictions: list[Contradiction] = Field(default=[], max_length=10, description="What can't all hold.")
    in_scope: bool = Field(description="Whether it is about the graph, or asks for a tool by its name.")
    questions: list[Words] = Field(
        default=[], max_length=_MOST_TEXTS, description="What to ask a person where it is not clear what is wanted."
    )
    operation: ToolSignature | None = Field(default=None, description="The one call, where the goal is simple.")


# How people ask for a change, whatever a model takes it for: at the beginning of a sentence or a part of one.
_ASKS_FOR_A_CHANGE: Final = re.compile(
    r"(?:^|[.;,:!?\n]\s*|\b(?:and|then|please|to|you|und|dann|bitte|y|luego|favor)\s+)"
    r"(?:create|add|insert|make|delete|remove|drop|set|unset|reset|update|change|modify|edit|correct|replace|rename|"
    r"connect|link|unlink|attach|detach|associate|relate|assign|unassign|reassign|transfer|mark|flag|resolve|complete|"
    r"archive|register|close|reopen|move|merge|append|clear|"
    r"erstell\w*|leg\w*|f\u00fcg\w*|l\u00f6sch\w*|entfern\w*|setz\w*|\u00e4nder\w*|verbind\w*|markier\w*|"
    r"schlie\u00df\w*|aktualisier\w*|ersetz\w*|erg\u00e4nz\w*|verschieb\w*|ordne|trag|benenn\w*|verkn\u00fcpf\w*|"
    r"crea|cree|a\u00f1ad[ea]|agreg[au]e?|elimin[ae]|borr[ae]|cambi[ae]|actualiz[ae]|actualice|modific[ae]|modifique|"
    r"pon|ponga|conect[ae]|marc[ae]|marque|cierr[ae]|asign[ae]|registr[ae]|renombr[ae]|mueve|quit[ae]|vincul[ae])\b",
    re.IGNORECASE,
)


# And how they say what is to be, in sentences that are no questions: what to read is named otherwise.
_SAYS_WHAT_IS_TO_BE: Final = re.compile(
    r"\b(?:get rid of|(?:should|must|ought to|shall|needs? to|has to|have to) (?:\w+ )?(?:be|have|become|go)"
    r"|needs? (?:an?|another)\b(?! (?:\w+ )?(?:list|overview|count|summary|report|table|answer|number))"
    r"|(?:put|give|take|turn|bring|throw) (?!me\b|us\b|out\b|a look\b)\S[^.?!\n]*"
    r"|(?:soll|sollen|sollte|sollten|muss|m\u00fcssen) [^.?!\n]*\b(?:sein|haben|werden|weg)"
    r"|(?:gib|stell|stelle|nimm|mach|mache|schaff|schaffe) (?!mir\b|uns\b)\S[^.?!\n]*"
    r"|brauch(?:e|en|t)? (?:ein|eine|einen|noch)\b(?! (?:\w+ )?(?:liste|\u00fcbersicht|bericht|tabelle|antwort|zahl))"
    r"|(?:debe|deben|deber\u00eda|deber\u00edan|tiene que|tienen que) (?:ser|estar|tener|quedar)"
    r"|(?:dale|ponle|deshazte de)\b"
    r"|necesit(?:o|amos|a) (?:un|una|otro|otra)\b(?! (?:lista|resumen|informe|tabla|respuesta)))",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"[^.?!\n]+(?:\.\w[^.?!\n]*)*[.?!]?")
_ASKS: Final = re.compile(
    r"\W*(?:wh\w+|how|is|are|do|does|did|can you (?:tell|show|list|find)|list|show|find|count|tell|search|look"
    r"|we(?:r|m|n|ssen)|welche\w*|was|wie|zeig\w*|find\w*|such\w*|nenn\w*|z\u00e4hl\w*"
    r"|qu\u00e9|cu\u00e1\w+|qui\u00e9n\w*|d\u00f3nde|c\u00f3mo|muestra|busca|lista|cuenta|encuentra)\b",
    re.IGNORECASE,
)


def asks_for_a_change(goal_spec: Mapping[str, Any], words: str) -> bool:
    """Tells whether a goal writes: the model that read it says so, or its words do."""
    if goal_spec.get("effect") == "writes" or _ASKS_FOR_A_CHANGE.search(words):
        return True
    return any(
        not said.rstrip().endswith("?") and not _ASKS.match(said) and _SAYS_WHAT_IS_TO_BE.search(said)
        for said in _SENTENCE.findall(words)
    )


# What is named with these need not be touched.
_SPARES: Final = re.compile(
    r"\b(?:except|excluding|but|unless|if|not|without|instead|au\u00dfer|nicht|ohne|wenn|falls|statt|excepto|salvo|sin|si|no)\b",
    re.IGNORECASE,
)


def left_undone(words: str, done: str) -> list[str]:
    """Returns the names of a goal, in quotes or with digits, that stand in nothing of what was done for it."""
    if _SPARES.search(words):
        return []
    stated = unsupported(words, Material(results=[done]), most=None)
    names = [each.words for each in stated if each.kind == "name"]
    return [
        name
        for name in names
        if any(map(str.isdigit, name)) or re.search(rf"[\"'`\u201c\u201e\u00ab]{re.escape(name)}", words)
    ]


class StepPlan(Submitted):
    """The next operations, and whether the goal is reached after them."""

    operations: list[ToolSignature] = Field(max_length=_MOST_OPERATIONS, description="The next calls, in order.")
    goal_reached: bool = Field(description="Whether nothing is left to do after these calls.")


GOAL: Final = Submission(SUBMIT_GOAL, "Hands in what the goal asks for.", GoalSpec)
PLAN: Final = Submission(SUBMIT_PLAN, "Hands in the next operations.", StepPlan)
