"""What a goal comes to with the answers that were given about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from services.offline_model.graph_goals.reading import Conflict, GoalReader, Operation, settled
from services.offline_model.prompt_data import GraphGoal
from services.offline_model.vocabulary import Vocabulary

_ABOUT_A_GRAPH = re.compile(
    r"\b(?:graph|nodes?|edges?|labels?|relationships?|propert(?:y|ies)|keys?|status)\b", re.IGNORECASE
)
_WANTS_A_CHANGE = re.compile(
    r"\b(?:fix|repair|change|update|create|add|delete|remove|set|clean|improve|broken|move|rename|connect|link|undo)\b",
    re.IGNORECASE,
)
_CONTRADICTION: Final = "contradiction"


@dataclass(frozen=True)
class Understanding:
    """What is wanted: operations, conflicts left, sentences that were not understood; and if it is our business."""

    operations: list[Operation]
    conflicts: list[Conflict]
    unclear: list[str]
    in_scope: bool


def understand(given: GraphGoal, vocabulary: Vocabulary) -> Understanding:
    """Reads a goal with its clarifications."""
    choices = [each.answer for each in given.clarifications if each.about == _CONTRADICTION]
    details = [each.answer for each in given.clarifications if each.about != _CONTRADICTION]
    goal = given.goal
    read = GoalReader(vocabulary).read
    reading = read("\n".join([goal, *details]))
    operations, conflicts = reading.operations, []
    for conflict in reading.conflicts:
        value = _chosen(conflict, choices)
        if value:
            operations = settled(operations, conflict, value)
        else:
            conflicts.append(conflict)
    # Details that can be read make up for a goal that can't.
    unclear = [] if details and operations and read("\n".join(details)).operations else reading.unclear
    in_scope = bool(operations or _WANTS_A_CHANGE.search(goal)) or _is_about_a_graph(goal, vocabulary)
    return Understanding(operations, conflicts, unclear, in_scope)


def _is_about_a_graph(goal: str, vocabulary: Vocabulary) -> bool:
    named = (re.search(rf"\b{re.escape(label)}s?\b", goal, re.IGNORECASE) for label in vocabulary.labels)
    keyed = (vocabulary.label_of_key(word) for word in re.findall(r"[\w.-]*\w", goal))
    return bool(_ABOUT_A_GRAPH.search(goal)) or any(named) or any(keyed)


def _chosen(conflict: Conflict, answers: Sequence[str]) -> str:
    for answer in reversed(answers):
        named = [value for value in conflict.values if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", answer, re.I)]
        if len(named) == 1:
            return named[0]
    return ""
