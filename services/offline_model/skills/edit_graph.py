"""The skills behind `signalbox-offline-parse`, `-plan` and `-answer`: a goal for a graph, to operations, to words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from services.kit.tools.names import ADD_NODE, UPDATE_PROPS
from services.offline_model.conversation import Answer, Call, Conversation
from services.offline_model.graph_goals.reading import Conflict, GoalReader, Operation, settled
from services.offline_model.prompt_data import Findings, GraphGoal, Step, as_prompt
from services.offline_model.vocabulary import Vocabulary

SUBMIT_GOAL: Final = "submit_goal"
SUBMIT_PLAN: Final = "submit_plan"
MOST_OPERATIONS: Final = 20
# The reason of an operation that found a node with other properties than it was to have.
ALREADY_THERE: Final = "already_there"
_IDENTITY: Final = ("label", "key", "type", "from", "to", "where")
_NO_GOAL: Final = Answer("I was shown no goal.")
_DETAILS: Final = (
    "What exactly is broken, or should be changed: which nodes, by label and key?",
    "What did you expect to see instead?",
    "Which errors are shown, if any?",
)
_NOTHING: Final = frozenset(("Nothing found.", "No rows."))
_CUT: Final = "[cut:"
_ABOUT_A_GRAPH = re.compile(
    r"\b(?:graph|nodes?|edges?|labels?|relationships?|propert(?:y|ies)|keys?|status)\b", re.IGNORECASE
)
_WANTS_A_CHANGE = re.compile(
    r"\b(?:fix|repair|change|update|create|add|delete|remove|set|clean|improve|broken|move|rename|connect|link|undo)\b",
    re.IGNORECASE,
)
_CONTRADICTION: Final = "contradiction"


@dataclass(frozen=True)
class _Goal:
    """What is wanted: operations, conflicts left, sentences that were not understood; and if it is our business."""

    operations: list[Operation]
    conflicts: list[Conflict]
    unclear: list[str]
    in_scope: bool


def read_goal(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Hands in what the goal asks for; what it does not cover gets questions, not guesses."""
    given = as_prompt(GraphGoal, conversation.data)
    if given is None:
        return _NO_GOAL
    found = _understood(given, vocabulary)
    clear = bool(found.operations) and not found.unclear
    spec: dict[str, Any] = {
        "intent": ", ".join(dict.fromkeys(each["tool"] for each in found.operations)) or "not clear",
        "entities": [each["arguments"]["key"] for each in found.operations if "key" in each["arguments"]],
        "constraints": [],
        "complexity": "simple" if len(found.operations) == 1 else "complex",
        "confidence": 0.9 if clear else 0.2,
        "contradictions": [
            {
                "about": f"The {conflict.property} of {conflict.key} is to be "
                f"{' and '.join(map(repr, conflict.values))}.",
                "choices": list(conflict.values),
            }
            for conflict in found.conflicts
        ],
        "in_scope": found.in_scope,
        "questions": [] if clear else _questions(found),
    }
    if len(found.operations) == 1 and clear and not found.conflicts:
        spec["operation"] = found.operations[0]
    return Answer(calls=(Call(SUBMIT_GOAL, spec),))


def plan_operations(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Hands in the operations that are left, after those that a person advised; has no other idea of its own."""
    given = as_prompt(GraphGoal, conversation.data)
    if given is None:
        return _NO_GOAL
    advised: list[Operation] = []
    reader = GoalReader(vocabulary)
    for operation in (each for advice in given.advice for each in reader.read(advice).operations):
        if operation not in advised:
            advised.append(operation)
    left = _instead(_not_done(_understood(given, vocabulary).operations, given.done), advised)
    left = [*_not_done(advised, given.done), *left]
    if given.went_wrong.get("reason") == ALREADY_THERE:
        left = [_updating(left[0]), *left[1:]] if left else []
    if not left and not given.done:
        return Answer("I find nothing in the goal that I could plan.")
    arguments = {"operations": left[:MOST_OPERATIONS], "goal_reached": len(left) <= MOST_OPERATIONS}
    return Answer(calls=(Call(SUBMIT_PLAN, arguments),))


def word_findings(conversation: Conversation) -> Answer:
    """Words what queries of the graph have found."""
    given = as_prompt(Findings, conversation.data)
    if given is None:
        return Answer("I can only word results: the prompt needs some.")
    return Answer("\n".join(_worded(result) for result in given.results))


def _questions(found: _Goal) -> list[str]:
    if not found.operations:
        return list(_DETAILS)
    return [f"I do not understand “{found.unclear[0][:200]}”. What should be done there?"]


def _not_done(operations: Sequence[Operation], done: Sequence[Step]) -> list[Operation]:
    return [operation for operation in operations if not any(_same(operation, each) for each in done)]


def _instead(operations: list[Operation], advised: Sequence[Operation]) -> list[Operation]:
    """Returns what is left besides advice: one that calls the same tool says how to do it, others what to do before."""
    for advice in advised:
        replaced = next((each for each in operations if each["tool"] == advice["tool"]), None)
        operations = [each for each in operations if each is not replaced]
    return operations


def _same(operation: Operation, done: Step) -> bool:
    """Tells whether a step that was done is an operation: the same change of the same thing."""
    mine, others = operation["arguments"], done.arguments
    if any(mine.get(name) != others.get(name) for name in _IDENTITY):
        return False
    if operation["tool"] == done.tool:
        return bool(mine.get("properties") == others.get("properties"))
    # What was there already was brought to the wanted properties by an update.
    return {operation["tool"], done.tool} == {ADD_NODE, UPDATE_PROPS}


def _updating(operation: Operation) -> Operation:
    """Returns what brings a node that is there already to the properties that it was to be added with."""
    if operation["tool"] != ADD_NODE or not operation["arguments"].get("properties"):
        return operation
    return {"tool": UPDATE_PROPS, "arguments": operation["arguments"]}


def _worded(result: str) -> str:
    if result.strip() in _NOTHING:
        return "Nothing was found."
    lines = result.splitlines()
    shown = [line for line in lines if not line.startswith(_CUT)]
    head = f"Found {len(shown)}{' and more' if len(shown) < len(lines) else ''}:"
    return "\n".join([head, *(f"- {_node(line)}" for line in shown)])


def _node(line: str) -> str:
    """Returns one node as `Ticket 'T-1' (status: open)`, and anything else as it is."""
    name, brace, rest = line.removeprefix("(").partition(" {")
    if not brace or "]-" in line or not rest.endswith("})"):
        return line
    try:
        properties = json.loads("{" + rest[:-1])
    except ValueError:
        return line
    told = ", ".join(f"{key}: {value}" for key, value in properties.items())
    return f"{name} ({told})" if told else name


def _understood(given: GraphGoal, vocabulary: Vocabulary) -> _Goal:
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
    return _Goal(operations, conflicts, unclear, in_scope)


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
