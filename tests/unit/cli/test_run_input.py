"""An agent's input from a file: what the gateway would refuse is refused here, by field and with the reason."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from signalbox.v1 import runs_pb2

from services.cli.batch_inputs import read_inputs
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.input_file import parse_input, read_input
from services.cli.run import Assignment
from services.gateway.validation import RequestReader
from services.kit.errors import InvalidRequest
from services.kit.wire.input_schema import AgentNotKnown, agents_known, schema_of

FINDING: dict[str, Any] = {
    "finding": {
        "fingerprint": "f-1",
        "rule_id": "B608",
        "cwe": "CWE-89",
        "message": "Possible SQL injection.",
        "location": {"file": "app/db.py", "first_line": 6},
        "trace": [{"file": "app/web.py", "first_line": 2, "last_line": 5}],
    },
    "source": {"repository": "/srv/app", "commit": "0123456789" * 4},
}
# What is changed, to what (… removes it), and how the answer begins.
WRONG = [
    (("finding",), ..., "the input: finding must be there"),
    (("source",), ..., "the input: source must be there"),
    (("finding", "fingerprint"), ..., "finding: fingerprint must be there"),
    (("finding", "fingerprint"), "", "finding.fingerprint: '' should be non-empty"),
    (("finding", "rule_id"), 608, "finding.rule_id: 608 is not of type 'string'"),
    (("finding", "rule_id"), "x" * 257, "finding.rule_id: 'xxx"),
    (("finding", "cwe"), "89", "finding.cwe: '89' does not match ^(CWE-[0-9]{1,6})?$"),
    (("finding", "location"), ..., "finding: location must be there"),
    (("finding", "location", "first_line"), ..., "finding.location: first_line must be there"),
    (("finding", "location", "first_line"), 0, "finding.location.first_line: 0 is less than the minimum of 1"),
    (
        ("finding", "location", "first_line"),
        2**31,
        "finding.location.first_line: 2147483648 is greater than",
    ),
    (("finding", "location", "last_line"), -1, "finding.location.last_line: -1 is less than the minimum of 0"),
    (("finding", "trace"), {}, "finding.trace: {} is not of type 'array'"),
    (("finding", "trace", 0, "file"), "", "finding.trace[0].file: '' should be non-empty"),
    (("finding", "trace"), [FINDING["finding"]["location"]] * 101, "finding.trace: [{"),
    (("finding", "severity"), "high", "finding: there is no field severity; there are fingerprint, rule_id,"),
    (("source", "commit"), "HEAD", "source.commit: 'HEAD' does not match ^[0-9a-f]{40}$"),
]


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    document = copy.deepcopy(FINDING)
    inner: Any = document
    for part in path[:-1]:
        inner = inner[part]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return document


def said(agent: str, text: str) -> list[str]:
    with pytest.raises(CliError) as refused:
        parse_input(agent, text, "input.yaml")
    assert refused.value.code is ExitCode.USAGE
    assert f"`signalbox run {agent} --schema`" in refused.value.hint
    return [line.strip() for line in refused.value.message.splitlines()]


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump], ids=["JSON", "YAML"])
def test_what_is_right_becomes_the_agents_input(write: Any) -> None:
    given = parse_input("sast_triage", write(FINDING), "input")
    assert given.WhichOneof("agent") == "sast_triage"
    assert MessageToDict(given.sast_triage, preserving_proto_field_name=True) == FINDING


@pytest.mark.parametrize(
    ("path", "value", "begins"), WRONG, ids=[str(case[0][-1]) + str(n) for n, case in enumerate(WRONG)]
)
def test_what_is_wrong_is_named(path: tuple[Any, ...], value: Any, begins: str) -> None:
    head, line, *more = said("sast_triage", json.dumps(changed(path, value)))
    assert head == "input.yaml is no input of sast_triage:"
    assert line.startswith(begins)
    assert len(line) < 600
    assert not more


@pytest.mark.parametrize(("path", "value", "_"), WRONG)
def test_the_gateway_would_refuse_it_too(path: tuple[Any, ...], value: Any, _: str) -> None:
    """The schema is no stricter than the proto: what it refuses, and a message can hold, breaks a rule there."""
    document = changed(path, value)
    message = runs_pb2.CreateRunRequest()
    try:
        ParseDict({"sast_triage": document}, message.input)
    except ParseError:
        return  # what no message can hold never gets to the gateway
    with pytest.raises(InvalidRequest):
        RequestReader().read(runs_pb2.CreateRunRequest, message.SerializeToString())


def test_all_that_is_wrong_is_named_at_once() -> None:
    document = changed(("source", "commit"), "HEAD")
    document["finding"]["cwe"] = "89"
    document["colour"] = "red"
    assert len(said("sast_triage", json.dumps(document))) == 1 + 3


@pytest.mark.parametrize("text", ["", "[]", "just words", "{question: [", "question: \x00", "a: *nothing"])
def test_what_is_no_input_at_all(text: str) -> None:
    assert said("data_chat", text)


def test_a_date_is_the_text_that_it_is_written_as() -> None:
    assert parse_input("data_chat", "question: 2026-11-22", "input").data_chat.question == "2026-11-22"


def test_from_standard_input_and_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"question: How many?"))))
    assert read_input("data_chat", Path("-")).data_chat.question == "How many?"
    (tmp_path / "latin.yaml").write_bytes(b"question: \xe9")
    for file, words in ((tmp_path / "none.yaml", "No such file"), (tmp_path / "latin.yaml", "is not UTF-8")):
        with pytest.raises(CliError, match=words):
            read_input("data_chat", file)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_what_a_windows_shell_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    file, written = tmp_path / "given.json", '{"question": "Wieviele Geräte?"}\r\n'.encode(encoding)
    file.write_bytes(written)
    for path in (file, Path("-")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(written))))
        assert read_input("data_chat", path).data_chat.question == "Wieviele Geräte?"
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(written))))
        [item] = read_inputs("data_chat", path)
        assert item.input.data_chat.question == "Wieviele Geräte?"


@pytest.mark.parametrize("agent", ["data_chat", "a_hosted_graph"])
def test_a_name_given_twice_is_no_input(tmp_path: Path, agent: str) -> None:
    file = tmp_path / "given.jsonl"
    file.write_text('{"question": "a", "question": "b"}\n')
    for read in (Assignment(agent, file).request, lambda: read_inputs(agent, file)):
        with pytest.raises(CliError, match="'question' is given twice"):
            read()


@pytest.mark.timeout(60)
def test_a_file_that_is_no_input_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "endless.yaml").open("wb") as file:
        file.truncate(2**34)
    with pytest.raises(CliError, match="it has more than 67,108,864 characters"):
        read_input("data_chat", tmp_path / "endless.yaml")


@pytest.mark.timeout(60)
def test_what_is_too_long_for_yaml_may_still_be_json() -> None:
    long = "word " * 2**20
    assert "question: 'word" in " ".join(said("data_chat", json.dumps({"question": long})))
    assert "as YAML it may have 4,194,304 characters" in " ".join(said("data_chat", f"question: {long}"))


@pytest.mark.parametrize("value", ["1" * 5000, "[" * 20_000 + "]" * 20_000, '"\\ud800"'])
def test_what_json_can_not_hold_is_no_input_either(value: str) -> None:
    assert said("data_chat", f'{{"question": {value}}}')


def test_an_agent_that_this_command_does_not_know() -> None:
    with pytest.raises(AgentNotKnown, match="no agent 'weather' is known; there are data_chat, sast_triage"):
        schema_of("weather")


@pytest.mark.parametrize("agent", agents_known())
def test_every_schema_is_one(agent: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of(agent))


@pytest.mark.parametrize("agent", agents_known())
def test_each_field_of_an_input_is_described(agent: str) -> None:
    schema = schema_of(agent)
    objects = [schema, *schema.get("$defs", {}).values()]
    fields = [field for each in objects for field in each.get("properties", {}).values()]
    assert fields
    assert all(each.get("description") for each in (*objects, *fields))
