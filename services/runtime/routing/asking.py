"""Asking a person: a node that asks holds nothing else, since it runs again from its start once it is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langgraph.types import interrupt

EXPIRED: Final = "expired"
INPUT_REQUEST_ID: Final = "input_request_id"
# What a question can show besides its text: changes of a graph, as JSON of the proto.
GRAPH_CHANGE_SET: Final = "graph_change_set"


@dataclass(frozen=True)
class Answerers:
    """Who may answer: the run's own caller, if `for_caller`, and whoever has one of the roles.

    Operators may answer anything, and people may be named later. `escalated_from` is the question that expired before
    this one was asked, of others.
    """

    for_caller: bool = True
    roles: Sequence[str] = ()
    escalated_from: str = ""


@dataclass(frozen=True)
class Subject:
    """What a question is about: a plan, by its hash, and what there is to show of it, as JSON."""

    plan_hash: str = ""
    detail: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PersonsAnswer:
    """What a person answered; or that nobody did in time, and to which question."""

    text: str
    expired: bool = False
    input_request_id: str = ""


CALLER: Final = Answerers()
NOTHING: Final = Subject()


def ask_person(
    question: str,
    options: Sequence[str] = (),
    *,
    expires_in_s: float,
    any_text: bool = False,
    of: Answerers = CALLER,
    about: Subject = NOTHING,
) -> PersonsAnswer:
    """Pauses the run with a question, and returns the answer once there is one, or the question has expired.

    With options the answer is one of them, unless `any_text`. A node that `asks` calls it once, and nothing before it.
    """
    answer: Any = interrupt(
        {
            "question": question,
            "options": list(options),
            "expires_in_s": expires_in_s,
            "any_text": any_text,
            "expires_to_graph": True,
            "for_caller": of.for_caller,
            "roles": list(of.roles),
            "escalated_from": of.escalated_from,
            "plan_hash": about.plan_hash,
            "detail": about.detail,
        }
    )
    if isinstance(answer, Mapping):
        return PersonsAnswer("", expired=True, input_request_id=answer.get(INPUT_REQUEST_ID, ""))
    return PersonsAnswer(str(answer))


def expired(input_request_id: str) -> dict[str, Any]:
    """Returns what a graph is given in the place of an answer when nobody answered in time. An answer is a text."""
    return {EXPIRED: True, INPUT_REQUEST_ID: input_request_id}
