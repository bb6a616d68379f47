"""What an operator has masked is in no answer: whatever of the contract holds it, and however it is written there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from hypothesis import given, settings
from hypothesis import strategies as st
from signalbox.v1 import data_chat_pb2, recorded_answers_pb2, runs_pb2, table_pb2, threads_pb2, tools_pb2

from services.gateway.redaction import MOST_ERROR_BYTES, NAMES, Redaction
from services.gateway.redaction_rules import MOST_MATCHES_OF_TEXT, WITHHELD, RedactionRules, load_redaction_rules
from services.kit.errors import FieldViolation, SignalboxError, to_status
from services.kit.text.policy_file import PolicyFileError
from tests.fixtures.contract import SERVICES, filled, texts_of
from tests.fixtures.growth import growth

SECRET = "ann@example.com"
EMAIL = {"name": "email", "pattern": r"[\w.]+@[\w.]+\.\w+"}
MARK = "[redacted: email]"
EMAIL_FIELD = {"name": "of-email", "field": "email"}
METHODS = [method for service in SERVICES for method in service.methods]


def masking(*rules: dict[str, Any], most_bytes: int = 4 * 1024 * 1024) -> Redaction:
    return Redaction(RedactionRules.model_validate({"rules": rules}), most_bytes=most_bytes)


def masked(message: Message, *rules: dict[str, Any], most_bytes: int = 4 * 1024 * 1024) -> Any:
    return type(message).FromString(masking(*rules or (EMAIL,), most_bytes=most_bytes).to_wire(message))


def struct(value: dict[str, Any]) -> Struct:
    made = Struct()
    made.update(value)
    return made


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name.removeprefix("signalbox.v1."))
def test_no_answer_has_what_is_masked_but_in_names(method: MethodDescriptor) -> None:
    named = {f"signalbox.v1.{message}.{field}" for message, fields in NAMES.items() for field in fields}
    for message in filled(method.output_type, SECRET):
        before = message.SerializeToString()
        left = [path for path, text in texts_of(masked(message)) if SECRET in text]
        assert [path for path in left if not named & set(path)] == []
        assert message.SerializeToString() == before  # it may be told once more


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name.removeprefix("signalbox.v1."))
def test_an_answer_is_never_too_large_for_its_marks(method: MethodDescriptor) -> None:
    named = {f"signalbox.v1.{message}.{field}" for message, fields in NAMES.items() for field in fields}
    for number, message in enumerate(filled(method.output_type, SECRET)):
        most_bytes = message.ByteSize() + number % 2 * 300
        found = masked(message, {**EMAIL, "name": "e" * 40}, most_bytes=most_bytes)
        assert found.ByteSize() <= most_bytes
        assert [path for path, text in texts_of(found) if SECRET in text and not named & set(path)] == []


def test_an_answer_that_marks_would_make_too_large_has_names_alone_and_says_so() -> None:
    long_name = {"name": "a" * 40, "field": "a"}
    many = json.dumps([{"a": 1}] * 85_000)
    run = runs_pb2.Run(run_id="r", title=many, error="Ended.", labels={"team": "x"}, epoch=7)
    run.input.graph.input.update({"of": [{"a": 1}]})
    found = masked(run, long_name, {"name": "epoch", "field": "epoch"})
    assert (found.run_id, found.title, found.error, found.labels["team"]) == ("r", WITHHELD, WITHHELD, WITHHELD)
    assert found.input.graph.input == struct({"redacted": WITHHELD})
    assert found.epoch == 0


def test_masked_names_are_numbered_in_time_that_grows_as_they_do() -> None:
    def prepare(count: int) -> Callable[[], object]:
        run = runs_pb2.Run(title=json.dumps({f"a{number}@b.de": number for number in range(count)}))
        return lambda: masked(run, {**EMAIL, "name": "e"})

    assert growth(prepare, 1_500, 12_000) < 24


def test_an_error_stays_as_small_as_its_headers() -> None:
    words = "a@b.de " * 140
    error = to_status(SignalboxError(words, violations=[FieldViolation("to", words)] * 3))
    found = masking({**EMAIL, "name": "e" * 40}).masked(error)
    assert (found.code, found.message) == (error.code, WITHHELD)
    assert found.ByteSize() <= MOST_ERROR_BYTES
    assert masking(EMAIL).masked(to_status(SignalboxError("x" * 2_000))).message.startswith("xxx")


def test_names_are_fields_that_there_are() -> None:
    for message, fields in NAMES.items():
        known = descriptor_pool.Default().FindMessageTypeByName(f"signalbox.v1.{message}").fields_by_name
        assert fields <= set(known), message


def test_without_rules_an_answer_is_as_it_was() -> None:
    run = runs_pb2.Run(title=SECRET)
    assert Redaction().to_wire(run) == run.SerializeToString()


def test_a_field_is_masked_by_the_end_of_its_path() -> None:
    given = struct(
        {"customer": {"mail": "x", "age": 3, "tags": ["a"]}, "mail": "y", "text": '{"customer": {"mail": "x"}}'}
    )
    run = runs_pb2.Run(agent="mine", error="z")
    run.input.graph.input.CopyFrom(given)
    rules = [
        {"name": "mail", "field": "customer.Mail"}, {"name": "age", "field": "age"}, {"name": "tags", "field": "tags"},
        {"name": "error", "field": "run.error"},
    ]  # fmt: skip
    found = masked(runs_pb2.GetRunResponse(run=run), *rules).run
    customer = {"mail": "[redacted: mail]", "age": "[redacted: age]", "tags": "[redacted: tags]"}
    text = '{"customer": {"mail": "[redacted: mail]"}}'
    assert found.input.graph.input == struct({"customer": customer, "mail": "y", "text": text})
    assert (found.agent, found.error) == ("mine", "[redacted: error]")


def test_what_a_task_wrote_is_masked_by_the_name_of_its_field() -> None:
    task = threads_pb2.Task(name="ask")
    for field, value in (("mail", "x"), ("customer", {"age": 3, "of": "y"}), ("value", "z")):
        write = task.writes.add(field=field)
        write.value.CopyFrom(struct({"value": value}).fields["value"])
    rules = [{"name": "mail", "field": "mail"}, {"name": "age", "field": "customer.age"}]
    for of in ("tasks", "ended_tasks"):
        state = threads_pb2.ThreadState()
        getattr(state, of).append(task)
        [found] = getattr(masked(threads_pb2.ListRunStatesResponse(states=[state]), *rules).states[0], of)
        assert [(each.field, MessageToDict(each.value)) for each in found.writes] == [
            ("mail", "[redacted: mail]"), ("customer", {"age": "[redacted: age]", "of": "y"}), ("value", "z"),
        ]  # fmt: skip


def table(**columns: Any) -> table_pb2.Table:
    made = table_pb2.Table(columns=[table_pb2.Column(name=name, type=kind) for name, (kind, _) in columns.items()])
    row = made.rows.add()
    for _, value in columns.values():
        row.values.append(table_pb2.Cell(**value))
    return made


def test_a_column_is_masked_whole_with_what_tells_its_rows_again() -> None:
    rows = table(
        mail=(table_pb2.COLUMN_TYPE_TEXT, {"text_value": "x"}), n=(table_pb2.COLUMN_TYPE_INT, {"int_value": 3})
    )
    output = data_chat_pb2.DataChatOutput(rows=rows, csv="mail,n\nx,3\n", answer="Three.")
    found = masked(output, {"name": "mail", "field": "mail"})
    assert [cell.text_value or cell.int_value for cell in found.rows.rows[0].values] == ["[redacted: mail]", 3]
    assert (found.csv, found.answer) == ("[redacted: mail]", "Three.")


def test_a_number_is_masked_as_it_is_written() -> None:
    rows = table(card=(table_pb2.COLUMN_TYPE_INT, {"int_value": 4111111111111111}))
    card = {"name": "card", "pattern": r"\b4[0-9]{15}\b"}
    found = masked(rows, card)
    assert (found.columns[0].type, found.rows[0].values[0].text_value) == (
        table_pb2.COLUMN_TYPE_TEXT,
        "[redacted: card]",
    )
    assert masked(struct({"card": 4111111111111111}), card) == struct({"card": "[redacted: card]"})


def test_names_of_people_as_keys_are_masked_and_none_is_lost() -> None:
    found = masked(struct({"a@b.de": 1, "c@d.de": 2, "n": 3}))
    assert sorted(found) == [MARK, f"{MARK} 2", "n"]
    assert sorted(found.values()) == [1, 2, 3]


def test_what_an_answer_must_look_like_is_masked() -> None:
    """A graph makes it of what it knows: what it suggests, and what there is to choose from."""
    mail = {"type": "string", "default": SECRET, "enum": [SECRET, "none"], "description": f"Was {SECRET}."}
    interrupt = runs_pb2.Interrupt(interrupt_id="i", answer_schema=struct({"properties": {"to": mail}}))
    run = runs_pb2.Run(input_request=runs_pb2.InputRequest(interrupts=[interrupt]))
    found = masked(run).input_request.interrupts[0]
    shown = {"type": "string", "default": MARK, "enum": [MARK, "none"], "description": f"Was {MARK}."}
    assert (found.interrupt_id, found.answer_schema) == ("i", struct({"properties": {"to": shown}}))


def test_recorded_answers_are_masked_as_what_they_hold() -> None:
    arguments = json.dumps({"to": SECRET})
    completion = {"choices": [{"message": {"tool_calls": [{"function": {"arguments": arguments}}]}}]}
    given = tools_pb2.CallToolResponse(output=tools_pb2.ToolOutput(text=f"mail: {SECRET}"))
    failure = to_status(SignalboxError(f"no {SECRET}", violations=[FieldViolation("to", f"{SECRET}?")]))
    heard = [
        recorded_answers_pb2.RecordedAnswer(source="model", method="chat", answer=json.dumps(completion).encode()),
        recorded_answers_pb2.RecordedAnswer(source="sql", method="CallTool q", answer=given.SerializeToString()),
        recorded_answers_pb2.RecordedAnswer(source="node", method="mine", answer=SECRET.encode()),
        recorded_answers_pb2.RecordedAnswer(
            failure=recorded_answers_pb2.RecordedFailure(status=failure.SerializeToString())
        ),
    ]
    found = masked(runs_pb2.ListRecordedAnswersResponse(answers=heard)).answers
    told = json.loads(found[0].answer)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(told) == {"to": MARK}
    assert tools_pb2.CallToolResponse.FromString(found[1].answer).output.text == f"mail: {MARK}"
    assert (found[2].source, found[2].answer) == ("node", b"")  # what can't be read is not told
    assert SECRET.encode() not in found[3].SerializeToString()
    assert b"no [redacted: email]" in found[3].failure.status


def test_what_was_asked_is_masked_by_text_and_by_field() -> None:
    messages = [
        {"role": "user", "content": f"Write to {SECRET}", "tool_calls": [{"arguments": json.dumps({"to": SECRET})}]}
    ]
    asked = recorded_answers_pb2.RecordedAnswer(source="model", request=struct({"messages": messages}), request_bytes=7)
    called = recorded_answers_pb2.RecordedAnswer(source="sql", request=struct({"email": "alice"}))
    response = runs_pb2.ListRecordedAnswersResponse(answers=[asked, called])
    found = masked(response).answers[0]
    said = found.request.fields["messages"].list_value.values[0].struct_value.fields
    assert (said["role"].string_value, said["content"].string_value) == ("user", f"Write to {MARK}")
    assert (SECRET in str(found), found.request_bytes) == (False, 7)
    assert "alice" not in str(masked(response, EMAIL_FIELD).answers[1])


def test_what_a_later_release_says_is_not_told_where_something_is_masked() -> None:
    field = b"\xca\x3e" + bytes([len(SECRET)]) + SECRET.encode()  # number 1001, which no message has
    run = runs_pb2.Run.FromString(runs_pb2.Run(run_id="run", title="t").SerializeToString() + field)
    told = masked(run)
    assert (told.run_id, SECRET.encode() in told.SerializeToString()) == ("run", False)


def test_of_what_matches_too_often_nothing_is_left() -> None:
    text = f"{SECRET} " * (MOST_MATCHES_OF_TEXT + 1)
    assert masked(runs_pb2.Run(title=text)).title == MARK
    assert len(masked(runs_pb2.Run(title=text[: len(text) // 2])).title) > len(MARK)


def test_what_is_nested_too_deep_is_left_out() -> None:
    deep: dict[str, Any] = {"x": SECRET}
    for _ in range(30):
        deep = {"x": deep}
    assert SECRET not in str(masked(struct(deep)))
    assert masked(runs_pb2.Run(title="[" * 100_000)).title == MARK


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (EMAIL_FIELD, r'{"email": "alice", "cut": "\ud83d"}'),
        (EMAIL, r'{"email": "alice@example.com", "cut": "\ud83d"}'),
        (EMAIL, r'["\ud83dalice\u0040example.com"]'),
        (EMAIL_FIELD, '{"email": "alice", "n": ' + "1" * 5000 + "}"),
        (EMAIL, r'["alice\u0040example.com", ' + "1" * 5000 + "]"),
        (EMAIL_FIELD, '{"customer": {"email": "alice"}, "customer": 1}'),
        (EMAIL, r'{"n": "alice\u0040example.com", "n": 1}'),
        (EMAIL_FIELD, '{"email": "alice", "of": "two\nlines"}'),
        (EMAIL_FIELD, '\ufeff {"email": "alice"}'),
        (EMAIL, r'"alice\u0040example.com"'),
    ],
)
def test_json_that_is_hard_to_read_is_masked(rule: dict[str, Any], text: str) -> None:
    title = masked(runs_pb2.Run(title=text), rule).title
    assert "[redacted: " in title
    assert "alice" not in title
    heard = recorded_answers_pb2.RecordedAnswer(source="model", answer=text.encode())
    assert b"alice" not in masked(heard, rule).answer


def test_half_a_character_stays_as_it_was_written() -> None:
    """No text of the contract can hold it, so it is written as an escape."""
    for rule in (EMAIL, EMAIL_FIELD):
        text = r'{"email": "a@b.de", "cut": "\ud83d", "whole": "\ud83d\ude00"}'
        told = masked(runs_pb2.Run(title=text), rule).title
        assert json.loads(told) == {"email": f"[redacted: {rule['name']}]", "cut": "\ud83d", "whole": "😀"}
        untouched = r'{"cut": "\ud83d"}'
        assert masked(runs_pb2.Run(title=untouched), rule).title == untouched


def spelled(text: str, draw: st.DrawFn) -> str:
    """A text as JSON, each character as itself or escaped."""
    written = []
    for each in text:
        if each in '"\\' or not each.isprintable() or draw(st.booleans()):
            written += [f"\\u{half:04x}" for half in halves_of(each)]
        else:
            written.append(each)
    return f'"{"".join(written)}"'


def halves_of(character: str) -> list[int]:
    wire = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(wire[at : at + 2]) for at in range(0, len(wire), 2)]


ODD_TEXTS = st.text(st.characters(exclude_categories=()), max_size=4)


@st.composite
def json_with_secrets(draw: st.DrawFn, depth: int = 3) -> str:
    """JSON of any spelling, with names that stand twice, halves of characters and long numbers."""
    kind = draw(st.sampled_from(["text", "secret", "number", "word", *(["list", "object", "json"] if depth else [])]))
    if kind == "number":
        return draw(st.sampled_from(["0", "-1.5e3", "1" * 5000]))
    if kind == "word":
        return draw(st.sampled_from(["null", "true", "NaN"]))
    if kind == "list":
        inner = draw(st.lists(json_with_secrets(depth - 1), max_size=3))
        return f"[{', '.join(inner)}]"
    if kind == "object":
        names = draw(st.lists(ODD_TEXTS | st.sampled_from(["a", "hush1234"]), max_size=3))
        pairs = [f"{spelled(name, draw)}: {draw(json_with_secrets(depth - 1))}" for name in names]
        if draw(st.booleans()):
            pin = draw(st.sampled_from(['"4711"', '[4711, {"x": "4711"}]']))
            pairs.append(f"{spelled('pin', draw)}: {pin}")
        return f"{{{', '.join(draw(st.permutations(pairs)))}}}"
    around = draw(ODD_TEXTS), draw(ODD_TEXTS)
    held = {"text": "", "secret": "hush1234"}.get(kind)
    if held is None:
        return spelled(draw(json_with_secrets(depth - 1)), draw)
    return spelled(f"{around[0]}{held}{around[1]}", draw)


@given(text=json_with_secrets())
@settings(max_examples=150)
def test_no_json_tells_what_is_masked_however_it_is_spelled(text: str) -> None:
    title = masked(
        runs_pb2.Run(title=text), {"name": "p", "pattern": "hush[0-9]+"}, {"name": "f", "field": "pin"}
    ).title
    for _ in range(5):
        assert "hush1234" not in title
        assert "4711" not in title
        title = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), title).replace("\\\\", "\\")


def test_rules_for_others_spare_who_sees_only_their_own() -> None:
    redaction = masking({**EMAIL, "masked_for": "others"})
    run = runs_pb2.Run(title=SECRET)
    assert runs_pb2.Run.FromString(redaction.to_wire(run)).title == MARK  # nobody has said who calls
    redaction.begin(sees_own_only=True)
    assert (runs_pb2.Run.FromString(redaction.to_wire(run)).title, redaction.holds) == (SECRET, False)
    redaction.begin(sees_own_only=False)
    assert (runs_pb2.Run.FromString(redaction.to_wire(run)).title, redaction.holds) == (MARK, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: [{name: a, pattern: '(x'}]", "rules.0"),
        ("rules: [{name: a, pattern: '(?=x)'}]", "not a pattern of RE2"),
        ("rules: [{name: a, pattern: 'x*'}]", "matches where there is nothing"),
        ("rules: [{name: a, pattern: '\\b'}]", "matches where there is nothing"),
        ("rules: [{name: a}]", "either a pattern or a field"),
        ("rules: [{name: a, pattern: x, field: y}]", "either a pattern or a field"),
        ("rules: [{name: a, pattern: x}, {name: a, field: y}]", "two rules are called a"),
        ("rules: [{name: a, pattern: x, masked_for: me}]", "masked_for"),
        ("rules: [{name: A, pattern: x}]", "name"),
        ("rules: [{name: a, pattern: x, mask: y}]", "mask"),
        ("rules", "dictionary"),
        ("", "redaction.yaml"),
    ],
)
def test_a_file_with_anything_wrong_is_refused_whole(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "redaction.yaml"
    file.write_text(text)
    with pytest.raises(PolicyFileError, match=r"redaction\.yaml") as refused:
        load_redaction_rules(file)
    assert said in str(refused.value)


def test_a_pattern_takes_no_longer_for_being_hostile() -> None:
    """RE2 goes through a text once, whatever the pattern."""
    title = "a" * 200_000
    assert masked(runs_pb2.Run(title=title), {"name": "a", "pattern": "(a+)+b"}).title == title
