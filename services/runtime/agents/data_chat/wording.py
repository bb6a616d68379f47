"""What an answer rests on, and the words that say so whatever a model wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from signalbox.v1 import data_chat_pb2
from signalbox_routing.table import StateUpdate

from services.kit.models.prompts import BEGIN
from services.kit.statements.check import unsupported
from services.kit.statements.material import Material
from services.kit.tools.names import EXECUTE_DB_QUERY
from services.runtime.agents.data_chat.query_results import STATED, runs_of
from services.runtime.agents.inability import BEGINNING, admits_inability
from services.runtime.agents.screening import BLOCKED, NO_VERDICT
from services.runtime.calls.chat_model import whole_text
from services.runtime.routing.state import COMPLETED, NEEDS_REVIEW

# Why the guard blocked a question, by its reason; of another it is only known that reading one's own data is not all.
_REFUSED_FOR = {
    "restricted_table": "it is about a table that is not open to questions",
    "other_user": "it asks for what belongs to somebody else",
    "caller_change": "it asks to be answered as somebody else, with other rights, or by other rules",
}
NO_ANSWER = "I could not find an answer to that question."
NO_QUERY = "No query was run, so nothing here comes from your data."
NO_RESULT = "No query brought a result, so nothing here comes from your data."
UNWORDED = "This could not be put into words; here is the result as it came:"
UNSUPPORTED = "What was said of it does not stand in the result; here it is as it came:"
UNFOUNDED = "What was said instead rests on nothing that was read, and is left out."
STOPPED = {
    "iteration_limit": "It took more rounds than one question gets.",
    "error_limit": "Too many attempts went wrong.",
    "budget_exhausted": "What this run may spend was used up first.",
}
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")
_MARK = re.compile(r"\W*unanswerable\b[\s:.,*-]*", re.IGNORECASE)


def refused_question(reason: str) -> str:
    """Returns the answer to a question that the guard blocked for a reason."""
    why = _REFUSED_FOR.get(
        reason, "it asks for something other than to read your own data, which is all that is done here"
    )
    return f"I can't help with that question: {why}."


def grounding_of(state: Mapping[str, Any]) -> data_chat_pb2.Grounding:
    """Returns what the answer of a state rests on."""
    if state.get("screening") == BLOCKED:
        return data_chat_pb2.GROUNDING_REFUSED
    if state.get("screening") in NO_VERDICT:
        return data_chat_pb2.GROUNDING_NOT_CHECKED
    # A checkpoint of an earlier release has rows, and does not say what they rest on.
    otherwise = data_chat_pb2.GROUNDING_ANSWERED_FROM_DATA if "rows" in state else data_chat_pb2.GROUNDING_UNSPECIFIED
    known: data_chat_pb2.Grounding = state.get("grounding", otherwise)
    return known


def with_result(state: Mapping[str, Any], worded: str = "", *, unsupported: bool = False) -> StateUpdate:
    """Returns the answer of a run that has a result: its wording, or the results themselves when no model words them.

    What nothing vouches for is not an answer from data, and says so; nor are columns that the query may have made up
    itself, where a model's words rested on them, or on nothing.
    """
    runs = runs_of(state)
    shown = "\n\n".join(run["result_text"] for run in runs)
    doubts = list(dict.fromkeys(filter(None, (run["doubt"] for run in runs))))
    if unsupported and not doubts and (stated := [name for run in runs for name in run["stated"]]):
        doubts = [f"{STATED} ({', '.join(dict.fromkeys(stated))})."]
    wording = data_chat_pb2.ANSWER_WORDING_MODEL if worded else data_chat_pb2.ANSWER_WORDING_PLAIN
    if unsupported:
        wording = data_chat_pb2.ANSWER_WORDING_PLAIN_AS_UNSUPPORTED
    text = worded or f"{UNSUPPORTED if unsupported else UNWORDED}\n\n{shown}"
    update: StateUpdate = {"answer": " ".join([*doubts, text]), "wording": int(wording), "status": COMPLETED}
    if not doubts:
        return update
    return {**update, "status": NEEDS_REVIEW, "grounding": int(data_chat_pb2.GROUNDING_NOT_CHECKED)}


def without_result(state: Mapping[str, Any]) -> StateUpdate:
    """Returns the answer of a run that has no result: what the agent said last, or what went wrong; never as a fact.

    What the agent said is left out where it states what nobody gave.
    """
    messages: Sequence[BaseMessage] = state.get("messages") or ()
    tried = any(isinstance(message, ToolMessage) and message.name == EXECUTE_DB_QUERY for message in messages)
    wrong = state.get("last_error", "").removeprefix("error: ")
    went_wrong = f"The last attempt failed: {wrong}" if wrong else ""
    text = _last_words(messages)
    if not text:
        parts = [NO_ANSWER, STOPPED.get(state.get("stop_reason", ""), ""), went_wrong]
        return _unanswered(parts, data_chat_pb2.GROUNDING_UNANSWERABLE)
    said = _MARK.sub("", text[:BEGINNING], count=1) + text[BEGINNING:]
    admits = admits_inability(text)
    grounding = data_chat_pb2.GROUNDING_UNANSWERABLE if tried or admits else data_chat_pb2.GROUNDING_NOT_CHECKED
    if BEGIN in said or _states_what_nobody_gave(said, state, messages, admits=admits):
        said = UNFOUNDED
    return _unanswered([NO_RESULT if tried else NO_QUERY, said, went_wrong], grounding)


def _states_what_nobody_gave(
    said: str, state: Mapping[str, Any], messages: Sequence[BaseMessage], *, admits: bool
) -> bool:
    """Tells whether words state a number, a date, a name or a link that stands for nothing.

    The question's may be said by who admits that they can't answer, and names then be any; else names are of what the
    agent was shown. What is only asked back may hold what it likes, but no link.
    """
    given = [state.get("question", ""), state.get("last_error", "")]
    given += [turn[part] for turn in state.get("turns") or () for part in ("question", "answer")]
    shown = [message.text for message in messages if not isinstance(message, AIMessage)]
    material = Material(texts=given if admits else (), labels=[*given, *shown])
    stated = " ".join(sentence for sentence in _SENTENCE_ENDS.split(said) if not sentence.endswith("?"))
    kinds = {each.kind for each in unsupported(stated, material, most=None)} - ({"name"} if admits else set())
    return bool(kinds) or any(each.kind == "link" for each in unsupported(said, material, most=None))


def _unanswered(parts: Sequence[str], grounding: data_chat_pb2.Grounding) -> StateUpdate:
    return {"answer": " ".join(filter(None, parts)), "status": NEEDS_REVIEW, "grounding": int(grounding)}


def _last_words(messages: Sequence[BaseMessage]) -> str:
    """What the agent said last, where that was meant as an answer: whole, and not on the way to a tool."""
    last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    if last is None or last.tool_calls or last.invalid_tool_calls:
        return ""
    return whole_text(last)
