"""Every field of every record that models hand in, in other types, wrappings and spellings, or not there at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from services.evaluator import answers
from services.kit.models.records import UnreadableAnswer, read_record, read_text
from services.runtime.agents.code_review.draft import Draft
from services.runtime.agents.graph_editor.goal import GoalSpec, StepPlan
from services.runtime.agents.incident_investigation.conclusion import Conclusion
from services.runtime.agents.structured import Submitted

OPERATION = {"tool": "add_node", "arguments": {"label": "Ticket", "key": "T-1", "properties": {"open": True}}}
CLAIM = {
    "claim": "It is built from input.",
    "file": "app/views.py",
    "first_line": 19,
    "last_line": 21,
    "quote": "run(x)",
}
EVIDENCE: dict[str, Any] = {
    "claim": "Latency rose to 900 ms.",
    "query": {"query": "SELECT p99 FROM metrics", "row": {"p99": 900, "host": "a"}},
    "graph_path": {
        "nodes": [{"label": "Service", "key": "api"}, {"label": "Service", "key": "db"}],
        "edges": [{"type": "CALLS", "backwards": False}],
    },
    "code": {"file": "config.yaml", "first_line": 3, "last_line": 3, "quote": "pool: 1"},
}
SOURCES = ("query", "graph_path", "code")
EXAMPLES: dict[type[BaseModel], dict[str, Any]] = {
    Draft: {
        "verdict": "TRUE_POSITIVE", "confidence": 0.85, "justification": "Input reaches it.", "claims": [CLAIM, CLAIM],
    },
    GoalSpec: {
        "intent": "create a ticket", "entities": ["Ticket T-1", "User u"], "constraints": ["it is open"],
        "complexity": "simple", "effect": "writes", "confidence": 0.85, "in_scope": True,
        "questions": ["which ticket?"],
        "contradictions": [{"about": "open and closed", "choices": ["open it", "close it"]}], "operation": OPERATION,
    },
    StepPlan: {"operations": [OPERATION, OPERATION], "goal_reached": True},
    Conclusion: {
        "cause_found": True, "root_cause": "The pool is too small.", "confidence": 0.85, "explanation": "It queues.",
        "evidence": [{"claim": EVIDENCE["claim"], source: EVIDENCE[source]} for source in SOURCES],
        "recommendations": ["Enlarge it.", "Watch it."],
        "timeline": [{"time": "2026-01-01T10:00:00Z", "event": "deployed"}],
    },
    answers.CauseAnswer: {
        "bears_on_cause": False, "time_fits": True, "explains_symptom": True,
        "problems": ["the time is wrong", "the host is another"], "reason": "None.",
    },
    answers.InvestigationAnswer: {
        "is_final": False, "verdict": "FALSE_POSITIVE", "confidence": 0.85, "justification": "It is constant.",
        "exploration_gaps": ["see main", "see config"],
    },
    answers.CritiqueAnswer: {"outcome": "needs_research", "missing": ["see main", "see cfg"], "reason": "None."},
}  # fmt: skip
Path = tuple[str | int, ...]
FREE = ("arguments", "row")


def records_of(module: Mapping[str, Any]) -> set[type[BaseModel]]:
    return {each for each in module.values() if isinstance(each, type) and issubclass(each, answers._Answer)}


def test_all_records_that_a_model_is_asked_for_have_an_example() -> None:
    asked: set[type[BaseModel]] = {each for each in Submitted.__subclasses__() if each.__name__ not in PARTS}
    asked |= records_of(vars(answers)) - {answers._Answer}
    assert asked == set(EXAMPLES)


PARTS = frozenset(
    {"CodeEvidence", "ToolSignature", "Contradiction", "QueryResult", "PathNode", "PathEdge", "GraphPath", "CodeLines",
     "Evidence", "Moment"}
)  # fmt: skip


def places(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in a record but what is a tool's or a row's own."""
    if at:
        yield at
    if at and at[-1] in FREE:
        return
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(each, (*at, key))


def changed(record: Any, at: Path, new: Any) -> Any:
    if not at:
        return new
    key, *others = at
    made: Any = dict(record) if isinstance(record, dict) else list(record)
    made[key] = changed(record[key], tuple(others), new)
    return made


def value_at(record: Any, at: Path) -> Any:
    for key in at:
        record = record[key]
    return record


def said_otherwise(value: Any, name: str | int) -> list[Any]:
    """Other forms of a value that plainly mean the same."""
    if isinstance(value, bool):
        words = ("true", "True", "yes", " TRUE.") if value else ("false", "False", "no", "False.")
        return [*words, int(value), [value], {"value": value}]
    if isinstance(value, float):
        percent = round(value * 100)
        return [f"{percent}%", percent, str(percent), str(value), f"{percent} %", f"{percent}/100", [value],
                {"score": value}, f"~{value}", str(value).replace(".", ",")]  # fmt: skip
    if isinstance(value, int):
        return [str(value), float(value), f"line {value}", f"L{value}", f"app.py:{value}", [value], f" {value} "]
    if isinstance(value, list):
        dumped = json.dumps(value)
        forms: list[Any] = [dumped, {"items": value}, {str(at): each for at, each in enumerate(value)}, [*value, None]]
        if all(isinstance(each, str) for each in value):
            forms += ["\n".join(f"- {each}" for each in value), [{"text": each} for each in value], [*value, ""]]
            forms += ["\n".join(f"{at}. {each}" for at, each in enumerate(value, 1))]
        return forms + ([value[0]] if len(value) == 1 else [])
    if isinstance(value, dict):
        return [json.dumps(value), [value], *([] if name in FREE else [{"value": value}, {**value, "comment": "so"}])]
    if name in ("verdict", "outcome", "complexity", "effect"):
        return [value.lower(), value.upper(), value.replace("_", " ").title(), f"{value}.", [value], {"value": value}]
    if name == "time":
        return ["2026-01-01T10:00:00", "2026-01-01 10:00:00", "2026-01-01T10:00:00 UTC", "2026-01-01 10:00"]
    return [[value], {"text": value}, [{"type": "text", "text": value}]]


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(deadline=None)
def test_what_is_plain_in_any_field_is_read_as_what_it_means(kind: type[BaseModel], data: st.DataObject) -> None:
    example = EXAMPLES[kind]
    said, meant = example, read_record(kind, example)
    # The inner places first: those around them then hold what was changed.
    chosen = data.draw(st.lists(st.sampled_from(sorted(places(example), key=str)), min_size=1, max_size=4, unique=True))
    for at in sorted(chosen, key=len, reverse=True):
        forms = said_otherwise(value_at(said, at), at[-1])
        said = changed(said, at, data.draw(st.sampled_from(forms)))
        if any(other[: len(at)] == at for other in chosen if other != at):
            break
    wrapped = data.draw(st.sampled_from([said, {"answer": said}, {"name": "submit", "arguments": said}, [said],
                                         {camel(name): each for name, each in said.items()}]))  # fmt: skip
    assert read_record(kind, wrapped) == meant


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(deadline=None)
def test_a_text_around_a_record_is_no_part_of_it(kind: type[BaseModel], data: st.DataObject) -> None:
    written = json.dumps(EXAMPLES[kind], indent=data.draw(st.sampled_from([None, 2])))
    around = data.draw(
        st.sampled_from(["{}", "Sure:\n{}", "```json\n{}\n```", "```\n{}```\nSo {{be}} it.", "{}\n\nThat is all."])
    )
    assert read_text(kind, around.replace("{}", written, 1)) == read_record(kind, EXAMPLES[kind])


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(deadline=None)
def test_whatever_stands_in_a_field_is_read_or_told(kind: type[BaseModel], data: st.DataObject) -> None:
    example = EXAMPLES[kind]
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=5,
    )
    at = data.draw(st.sampled_from(sorted(places(example), key=str)))
    told = problem_of(kind, changed(example, at, data.draw(anything)))
    assert told is None or 0 < len(told) < 2000


def problem_of(kind: type[BaseModel], said: Any) -> str | None:
    try:
        read_record(kind, said)
    except UnreadableAnswer as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("kind", "changes", "field"),
    [
        (Draft, {"confidence": 8}, "confidence"),
        (Draft, {"confidence": "high"}, "confidence"),
        (Draft, {"confidence": None}, "confidence"),
        (Draft, {"confidence": True}, "confidence"),
        (Draft, {"verdict": "POSITIVE"}, "verdict"),
        (GoalSpec, {"in_scope": None}, "in_scope"),
        (GoalSpec, {"in_scope": "perhaps"}, "in_scope"),
        (StepPlan, {"goal_reached": 7}, "goal_reached"),
        (Conclusion, {"confidence": [0.1, 0.9]}, "confidence"),
    ],
)
def test_what_is_not_plain_is_told_with_the_name_of_its_field(
    kind: type[BaseModel], changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(UnreadableAnswer, match=field):
        read_record(kind, {**EXAMPLES[kind], **changes})


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_a_field_that_is_not_there_is_no_field_or_told(kind: type[BaseModel]) -> None:
    for name, field in kind.model_fields.items():
        said = {key: each for key, each in EXAMPLES[kind].items() if key != name}
        if isinstance(EXAMPLES[kind][name], list) or not field.is_required():
            # Left out it may be, as far as its type goes; what a record must say may need it all the same.
            assert "Value error" in (problem_of(kind, said) or "Value error")
        else:
            with pytest.raises(UnreadableAnswer, match=name):
                read_record(kind, said)


@pytest.mark.parametrize(
    "missing", [["none"], "none", "None.", "N/A", None, [], [""], "[]", ["n/a"], {}, ["keine"], "None found."]
)
def test_nothing_missing_may_be_said_in_words(missing: object) -> None:
    said = {"outcome": "approved", "missing": missing, "reason": "It follows."}
    assert read_record(answers.CritiqueAnswer, said).missing == ()


@pytest.mark.parametrize(
    "call",
    [
        {"name": "add_node", "arguments": {"key": "T-1"}}, {"tool_name": "add_node", "parameters": {"key": "T-1"}},
        {"name": "add_node", "args": {"key": "T-1"}}, {"action": "add_node", "action_input": '{"key": "T-1"}'},
        {"type": "function", "function": {"name": "add_node", "arguments": '{"key": "T-1"}'}},
        {"tool": "functions.add_node", "arguments": {"key": "T-1"}}, {"function": "add_node", "input": {"key": "T-1"}},
    ],
)  # fmt: skip
def test_a_call_that_is_planned_may_be_written_as_calls_are(call: dict[str, Any]) -> None:
    [read] = read_record(StepPlan, {"operations": [call], "goal_reached": True}).operations
    assert (read.tool, read.arguments) == ("add_node", {"key": "T-1"})


def test_a_planned_call_without_arguments_or_tool_is_told() -> None:
    for call in ({"tool": "add_node"}, {"arguments": {"key": "T-1"}}, {"tool": "add_node", "arguments": "T-1"}):
        with pytest.raises(UnreadableAnswer, match="operations"):
            read_record(StepPlan, {"operations": [call], "goal_reached": True})


@pytest.mark.parametrize("said", ["yes", "ja", "Sí", "wahr", "true"])
def test_a_truth_may_be_said_in_words(said: str) -> None:
    told = {
        "bears_on_cause": said,
        "time_fits": said,
        "explains_symptom": said,
        "problems": [],
        "reason": "It follows.",
    }
    assert read_record(answers.CauseAnswer, told).confirmed
    refuted = {**told, "time_fits": "nein", "problems": ["It came later."]}
    assert not read_record(answers.CauseAnswer, refuted).confirmed


def test_json_that_is_written_down_as_json_is_read() -> None:
    said = {"outcome": "approved", "missing": [], "reason": "It follows."}
    assert read_text(answers.CritiqueAnswer, json.dumps(json.dumps(said))).reason == "It follows."


@pytest.mark.parametrize(
    "place",
    [
        {"file": "app/views.py:19-21"}, {"file": "app/views.py", "lines": "19-21"},
        {"file": "app/views.py", "lines": [19, 21]},
        {"file": "app/views.py", "first_line": "19-21"}, {"file": "app/views.py", "firstLine": 19, "lastLine": "21"},
        {"file": "app/views.py", "start_line": 19, "end_line": 21},
        {"file": "app/views.py", "first_line": "L19", "last_line": "L21"},
    ],
)  # fmt: skip
def test_a_place_in_a_file_may_be_said_in_any_way(place: dict[str, Any]) -> None:
    claim = {name: each for name, each in CLAIM.items() if name not in ("file", "first_line", "last_line")}
    [read] = read_record(Draft, {**EXAMPLES[Draft], "claims": {**claim, **place}}).claims
    assert (read.file, read.first_line, read.last_line) == ("app/views.py", 19, 21)


def test_one_line_needs_no_last_one() -> None:
    claim = {name: each for name, each in CLAIM.items() if name not in ("file", "first_line", "last_line")}
    [read] = read_record(Draft, {**EXAMPLES[Draft], "claims": [{**claim, "file": "app/views.py:19"}]}).claims
    assert (read.file, read.first_line, read.last_line) == ("app/views.py", 19, 19)


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_every_text_and_list_of_a_record_has_an_end(kind: type[BaseModel]) -> None:
    """What a model hands in goes into later prompts, messages and people's pages."""

    def endless(part: Any, at: str) -> Iterator[str]:
        if isinstance(part, list):
            for each in part:
                yield from endless(each, at)
        if not isinstance(part, dict):
            return
        if part.get("type") == "string" and not {"maxLength", "enum", "const", "format"} & set(part):
            yield f"{at}: a text"
        if part.get("type") == "array" and "maxItems" not in part:
            yield f"{at}: a list"
        for name, each in part.items():
            yield from endless(each, f"{at}.{name}")

    assert list(endless(kind.model_json_schema(), kind.__name__)) == []
