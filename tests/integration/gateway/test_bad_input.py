"""Requests that break the rules: refused at the gateway, naming what is wrong, before the runtime hears of them."""

from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from signalbox.v1 import caller_pb2, questions_pb2, runs_pb2

from services.kit.errors import ErrorDetail, error_detail
from tests.integration.gateway.conftest import Platform, StartPlatform, question

OF_QUESTIONS = ("GetQuestion", "AnswerQuestion", "AssignQuestion")
UUID = "0199a0c0-0000-7000-8000-000000000000"


async def refused(platform: Platform, method: str, wire: bytes) -> ErrorDetail:
    """How the gateway refuses a request in its wire form."""
    # The stubs want messages; what is sent here is none.
    channel: Any = platform.channel
    service = "QuestionService" if method in OF_QUESTIONS else "RunService"
    path, metadata = f"/signalbox.v1.{service}/{method}", platform.auth()
    if method in ("ExecuteRun", "WatchRun"):
        answer = channel.unary_stream(path)(wire, metadata=metadata).read()
    else:
        answer = channel.unary_unary(path)(wire, metadata=metadata)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer
    assert platform.calls == []
    return error_detail(caught.value)


def fields(detail: ErrorDetail) -> list[str]:
    return list(dict.fromkeys(violation.field for violation in detail.violations))


BAD_REQUESTS = [
    ("CreateRun", runs_pb2.CreateRunRequest(), ["input"], "required"),
    ("CreateRun", runs_pb2.CreateRunRequest(input=runs_pb2.RunInput()), ["input.agent"], "exactly one of: data_chat"),
    ("CreateRun", question(""), ["input.data_chat.question"], "at least 1"),
    ("CreateRun", question("   \n\t "), ["input.data_chat.question"], "blank"),
    ("CreateRun", question("Count\x00 devices"), ["input.data_chat.question"], "NUL"),
    ("CreateRun", question("x" * 4001), ["input.data_chat.question"], "4000"),
    ("CreateRun", question(request_id="two words"), ["request_id"], "pattern"),
    ("CreateRun", question(request_id="r" * 129), ["request_id"], "pattern"),
    ("CreateRun", question(thread_id="a/b"), ["thread_id"], "pattern"),
    ("CreateRun", question(correlation_id="caf\u00e9"), ["correlation_id"], "pattern"),
    ("CreateRun", question(active_run_policy=99), ["active_run_policy"], "defined"),
    ("CreateRun", question(budget=caller_pb2.Budget(model_calls=-1)), ["budget.model_calls"], "0"),
    ("CreateRun", question(budget=caller_pb2.Budget(wall_time_s=86401)), ["budget.wall_time_s"], "86400"),
    ("CreateRun", question(labels={"a b": "c"}), ["labels['a b']"], "pattern"),
    ("CreateRun", question(labels={"": "c"}), ["labels['']"], "blank"),
    ("CreateRun", question(labels={"team": "pay=ments"}), ["labels['team']"], "pattern"),
    ("CreateRun", question(labels={"team": "payments\n"}), ["labels['team']"], "pattern"),
    ("CreateRun", question(labels={"a/b/c": "d"}), ["labels['a/b/c']"], "pattern"),
    ("CreateRun", question(labels={"k" * 64: ""}), [f"labels['{'k' * 64}']"], "pattern"),
    ("CreateRun", question(labels={"k": "v" * 64}), ["labels['k']"], "63"),
    ("CreateRun", question(labels={f"k{n}": "" for n in range(17)}), ["labels"], "16"),
    ("ListRuns", runs_pb2.ListRunsRequest(labels={"-team": ""}), ["labels['-team']"], "pattern"),
    ("ExecuteRun", runs_pb2.ExecuteRunRequest(), ["create"], "required"),
    ("ExecuteRun", runs_pb2.ExecuteRunRequest(create=question("")), ["create.input.data_chat.question"], "at least 1"),
    ("WatchRun", runs_pb2.WatchRunRequest(run_id="7"), ["run_id"], "UUID"),
    ("WatchRun", runs_pb2.WatchRunRequest(run_id=UUID, after_sequence=-1), ["after_sequence"], "0"),
    ("GetRun", runs_pb2.GetRunRequest(), ["run_id"], "UUID"),
    ("GetRun", runs_pb2.GetRunRequest(run_id=UUID + "\x00"), ["run_id"], "NUL"),
    ("CancelRun", runs_pb2.CancelRunRequest(run_id="' OR 1=1"), ["run_id"], "UUID"),
    ("ListRuns", runs_pb2.ListRunsRequest(agent="A Poet"), ["agent"], "pattern"),
    ("ListRuns", runs_pb2.ListRunsRequest(page_size=501), ["page_size"], "500"),
    ("ListRuns", runs_pb2.ListRunsRequest(state=77), ["state"], "defined"),  # type: ignore[arg-type]
    ("ListDecisions", runs_pb2.ListDecisionsRequest(run_id=UUID, page_token="t" * 257), ["page_token"], "256"),
    ("ListDecisions", runs_pb2.ListDecisionsRequest(run_id=UUID, page_token="a\x00b"), ["page_token"], "NUL"),
    ("ListDecisions", runs_pb2.ListDecisionsRequest(run_id="no"), ["run_id"], "UUID"),
    ("ListDecisions", runs_pb2.ListDecisionsRequest(rule="\x00", subject="\x00"), ["rule", "subject"], "NUL"),
    ("CountDecisions", runs_pb2.CountDecisionsRequest(interval_hours=745), ["agent", "interval_hours"], "744"),
    ("CountRuns", runs_pb2.CountRunsRequest(interval_minutes=4), ["since_time", "interval_minutes"], "44640"),
    ("ExplainRun", runs_pb2.ExplainRunRequest(run_id="no", page_size=1001), ["run_id", "page_size"], "UUID"),
    ("ListRuns", runs_pb2.ListRunsRequest(page_token="\x00"), ["page_token"], "NUL"),
    ("ListRuns", runs_pb2.ListRunsRequest(page_token="caf\u00e9"), ["page_token"], "pattern"),
    ("ListRuns", runs_pb2.ListRunsRequest(page_token="t" * 257), ["page_token"], "256"),
    ("ResumeRun", runs_pb2.ResumeRunRequest(run_id=UUID), ["", "input_request_id"], "at least 1"),
    ("ResumeRun", runs_pb2.ResumeRunRequest(run_id=UUID, input_request_id="q", answer="y\x00"), ["answer"], "NUL"),
    (
        "ResumeRun",
        runs_pb2.ResumeRunRequest(run_id=UUID, input_request_id="q\x00", answer="y"),
        ["input_request_id"],
        "NUL",
    ),
    (
        "GetQuestion",
        questions_pb2.GetQuestionRequest(run_id=UUID, input_request_id="\x00"),
        ["input_request_id"],
        "NUL",
    ),
    (
        "AnswerQuestion",
        questions_pb2.AnswerQuestionRequest(run_id=UUID, input_request_id="\x00", plan_hash="\x00", answer="y"),
        ["input_request_id", "plan_hash"],
        "NUL",
    ),
    (
        "AssignQuestion",
        questions_pb2.AssignQuestionRequest(run_id=UUID, input_request_id="\x00", assignee="bob"),
        ["input_request_id"],
        "NUL",
    ),
]


@pytest.mark.parametrize(("method", "request_message", "wrong", "words"), BAD_REQUESTS)
async def test_a_request_that_breaks_a_rule_is_refused_by_field(
    platform: Platform, method: str, request_message: Message, wrong: Sequence[str], words: str
) -> None:
    detail = await refused(platform, method, request_message.SerializeToString())
    assert detail.code is grpc.StatusCode.INVALID_ARGUMENT
    assert detail.reason == "INVALID_REQUEST"
    assert fields(detail) == wrong
    assert any(words in violation.description for violation in detail.violations)
    assert all(field in detail.message for field in wrong)
    assert not detail.retryable


async def test_every_broken_rule_is_named_at_once(platform: Platform) -> None:
    request = question("", thread_id="a b", request_id="é")
    detail = await refused(platform, "CreateRun", request.SerializeToString())
    assert sorted(fields(detail)) == ["input.data_chat.question", "request_id", "thread_id"]


def length_delimited(number: int, content: bytes) -> bytes:
    """A protobuf field of the wire type for strings and messages."""
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


MALFORMED = {
    "invalid UTF-8 in a string": ("GetRun", length_delimited(1, b"\xff\xfe"), "UTF-8"),
    "invalid UTF-8 in the question": (
        "CreateRun", length_delimited(1, length_delimited(1, length_delimited(1, b"Count \xc3\x28"))), "UTF-8",
    ),
    "overlong UTF-8": ("GetRun", length_delimited(1, b"\xc0\x80"), "UTF-8"),
    "a surrogate in UTF-8": ("GetRun", length_delimited(1, b"\xed\xa0\x80"), "UTF-8"),
    "a cut message": ("CreateRun", b"\x0a\x7f\x01", "not a valid message"),
    "no message at all": ("CreateRun", b"hello, gateway", "not a valid message"),
    "a group that never ends": ("CreateRun", b"\x0b" * 200, "not a valid message"),
    "JSON": ("CreateRun", b'{"input": {"dataChat": {"question": "hi"}}}', "not a valid message"),
    "malformed, to a stream": ("ExecuteRun", b"\xff\xff\xff\xff", "not a valid message"),
}  # fmt: skip


@pytest.mark.parametrize(("method", "wire", "words"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_bytes_that_are_no_request_are_refused_as_such(
    platform: Platform, method: str, wire: bytes, words: str
) -> None:
    detail = await refused(platform, method, wire)
    assert detail.code is grpc.StatusCode.INVALID_ARGUMENT
    assert detail.reason == "INVALID_REQUEST"
    assert words in detail.message
    assert "Run" in detail.message


async def test_a_field_of_the_wrong_wire_type_is_refused(platform: Platform) -> None:
    number_for_input = bytes([1 << 3 | 0, 42])
    detail = await refused(platform, "CreateRun", number_for_input)
    assert detail.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_question_of_megabytes_is_refused_by_its_field(platform: Platform) -> None:
    detail = await refused(platform, "CreateRun", question("x" * 3_000_000).SerializeToString())
    assert detail.code is grpc.StatusCode.INVALID_ARGUMENT
    assert fields(detail) == ["input.data_chat.question"]
    assert len(detail.message) < 500


async def test_a_message_beyond_the_size_limit_is_refused_unread(start_platform: StartPlatform) -> None:
    platform = await start_platform(max_message_bytes=65536)
    detail = await refused(platform, "CreateRun", question("x" * 70_000).SerializeToString())
    assert detail.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in detail.message
    assert "65536" in detail.message


async def test_bad_input_is_not_answered_to_strangers(platform: Platform) -> None:
    channel: Any = platform.channel
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary("/signalbox.v1.RunService/CreateRun")(b"\xff")
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_the_longest_question_allowed_goes_through(platform: Platform) -> None:
    longest = question("\N{GRINNING FACE}" * 4000, request_id="!" * 128, thread_id="t" * 128)
    await platform.stub.CreateRun(longest, metadata=platform.auth())
    [(_, request, _)] = platform.calls
    assert request.input == longest.input


async def test_of_more_violations_than_a_call_can_carry_the_first_are_named(start_platform: StartPlatform) -> None:
    platform = await start_platform()
    request = runs_pb2.CreateRunRequest()
    for _ in range(100):
        request.input.sast_triage.finding.trace.add(file="src/a.py", first_line=-1)
    detail = await refused(platform, "CreateRun", request.SerializeToString())
    assert (detail.code, detail.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    *named, last = detail.violations
    assert len(named) > 5
    assert last.description.endswith(" more")
