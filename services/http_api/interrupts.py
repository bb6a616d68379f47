"""What a run asks a person, as LangGraph's interrupts, and a client's `resume` as the answer."""

from __future__ import annotations

from typing import Any

import orjson
from signalbox.v1 import runs_pb2

from services.http_api.errors import Invalid
from services.http_api.json_bodies import json_of, json_of_value, value_of

INTERRUPT = "__interrupt__"
_MOST_ANSWER_CHARACTERS = 4000


def interrupts_of(asked: runs_pb2.InputRequest) -> list[dict[str, Any]]:
    """Returns the interrupts of a question; one of the platform's own agents asks in words."""
    if not asked.interrupts:
        return [
            {
                "id": asked.input_request_id,
                "value": {"question": asked.question, "options": list(asked.options), "any_text": asked.any_text},
            }
        ]
    return [
        {
            "id": each.interrupt_id,
            "value": json_of_value(each.payload),
            **({"response_schema": json_of(each.answer_schema)} if each.HasField("answer_schema") else {}),
        }
        for each in asked.interrupts
    ]


def answer_of(run: runs_pb2.Run, resume: Any) -> runs_pb2.ResumeRunRequest:
    """Returns the answer that a client's `resume` is to the question of a run. Raises Invalid.

    As in LangGraph, an object whose keys are ids of interrupts answers those, and anything else the only one.
    """
    asked = run.input_request
    answer = runs_pb2.ResumeRunRequest(run_id=run.run_id, input_request_id=asked.input_request_id)
    if not asked.interrupts:
        if isinstance(resume, dict) and list(resume) == [asked.input_request_id]:
            [resume] = resume.values()
        answer.answer = resume if isinstance(resume, str) else orjson.dumps(resume).decode()
        if not 0 < len(answer.answer) <= _MOST_ANSWER_CHARACTERS:
            raise Invalid(f"command.resume: an answer has 1 to {_MOST_ANSWER_CHARACTERS} characters")
        return answer
    open_ids = {each.interrupt_id for each in asked.interrupts}
    if isinstance(resume, dict) and resume and resume.keys() <= open_ids:
        answers = resume
    elif len(open_ids) == 1:
        answers = {open_ids.pop(): resume}
    else:
        raise Invalid(
            f"command.resume: the run asks {len(open_ids)} things at once; answer by their ids: "
            f"{', '.join(sorted(open_ids))}"
        )
    for interrupt_id, value in answers.items():
        answer.answers[interrupt_id].CopyFrom(value_of(value))
    return answer
