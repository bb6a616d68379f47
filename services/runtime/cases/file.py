"""Cases as files: JSON of the message `signalbox.v1.Case`."""

from __future__ import annotations

from pathlib import Path

from google.protobuf.json_format import Parse, ParseError
from signalbox.v1 import cases_pb2

from services.runtime.cases.errors import CaseUnreadable

FORM = 1


def read_case(path: Path) -> cases_pb2.Case:
    """Reads a case. Raises CaseUnreadable with what is wrong."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise CaseUnreadable(f"{path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CaseUnreadable(f"{path} is damaged: {error.reason} at byte {error.start}") from error
    try:
        # Unknown fields are those of a later release, whose form is looked at first.
        case = Parse(text, cases_pb2.Case(), ignore_unknown_fields=True)
    except ParseError as error:
        raise CaseUnreadable(f"{path} is damaged, or no case: {str(error).splitlines()[0]}") from error
    if case.form != FORM:
        form = f"has the form {case.form}" if case.form else "is not a case: it names no form"
        raise CaseUnreadable(f"{path} {form}; this release reads form {FORM}, which `signalbox pin` writes")
    if problem := _problem(case):
        raise CaseUnreadable(f"{path} is damaged: {problem}")
    return case


def _problem(case: cases_pb2.Case) -> str:
    run = case.run
    if not run.agent or not run.input.WhichOneof("agent") or not run.HasField("policy"):
        return "it lacks the run's agent, input or policy"
    if (run.input.graph.agent if run.input.HasField("graph") else run.input.WhichOneof("agent")) != run.agent:
        return "its input is another agent's"
    if [decision.sequence for decision in case.decisions] != list(range(1, len(case.decisions) + 1)):
        return "decisions are missing, or out of order"
    if any(not answer.source or not answer.method for answer in case.answers):
        return "an answer does not say whose it is"
    return ""
