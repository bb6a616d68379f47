"""What is masked leaves the gateway by none of its methods, in no stream and in no error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_status import rpc_status
from signalbox.v1 import batches_pb2, maintenance_pb2, questions_pb2, runs_pb2, store_pb2, threads_pb2

from services.gateway.redaction import NAMES
from services.gateway.redaction_rules import WITHHELD
from services.http_api.app import make_app
from services.http_api.event_stream import Streams
from services.http_api.gateway import Gateway
from services.http_api.settings import HttpApiSettings
from services.kit.errors import FieldViolation, InvalidRequest, error_detail, to_status
from tests.fixtures.contract import SERVICES, filled, texts_of
from tests.integration.gateway.conftest import Platform, StartPlatform, question

SECRET, MARK = "ann@example.com", "[redacted: email]"
RULES = "rules: [{name: email, pattern: '[a-z]+@[a-z.]+', masked_for: others}]"
RUN_ID = "0199a0c0-0000-7000-8000-000000000000"
ASKED: dict[str, Any] = {"run_id": RUN_ID, "input_request_id": "q", "answer": "yes"}
PLACE = store_pb2.StoreNamespace(labels=["a"])
REQUESTS: dict[str, Message] = {
    "CreateRun": question(),
    "ExecuteRun": runs_pb2.ExecuteRunRequest(create=question(), token_chunks=True),
    "WatchRun": runs_pb2.WatchRunRequest(run_id=RUN_ID, token_chunks=True, callback_events=True),
    "ResumeRun": runs_pb2.ResumeRunRequest(**ASKED),
    "CountDecisions": runs_pb2.CountDecisionsRequest(agent="data_chat"),
    "CountRuns": runs_pb2.CountRunsRequest(since_time=Timestamp(seconds=1), interval_minutes=60),
    "ForkThread": threads_pb2.ForkThreadRequest(thread_id="talk", run_id=RUN_ID),
    "AnswerQuestion": questions_pb2.AnswerQuestionRequest(**ASKED),
    "AssignQuestion": questions_pb2.AssignQuestionRequest(run_id=RUN_ID, input_request_id="q"),
    "AddBatchItems": batches_pb2.AddBatchItemsRequest(
        batch_id=RUN_ID, first_number=1, items=[batches_pb2.NewBatchItem(input=question().input)]
    ),
    "StartBatch": batches_pb2.StartBatchRequest(batch_id=RUN_ID, item_count=1),
    "UpdateThread": threads_pb2.UpdateThreadRequest(thread_id="talk", metadata=Struct()),
    "GetItem": store_pb2.GetItemRequest(namespace=PLACE, key="k"),
    "PutItem": store_pb2.PutItemRequest(namespace=PLACE, key="k", value=Struct()),
    "DeleteItem": store_pb2.DeleteItemRequest(namespace=PLACE, key="k"),
    "EraseStore": maintenance_pb2.EraseStoreRequest(subject="27"),
    "ReplayDecisions": maintenance_pb2.ReplayDecisionsRequest(router="r"),
}
METHODS = [method for service in SERVICES for method in service.methods]


def request_of(method: MethodDescriptor) -> Any:
    """A request that is all right."""
    if method.name in REQUESTS:
        return REQUESTS[method.name]
    request: Any = GetMessageClass(method.input_type)()
    for name, value in (("run_id", RUN_ID), ("thread_id", "talk"), ("batch_id", RUN_ID)):
        if name in method.input_type.fields_by_name and not method.name.startswith("List"):
            setattr(request, name, value)
    if method.name in ("ListDecisions", "ListRecordedAnswers", "ListRunStates"):
        request.run_id = RUN_ID
    return request


class Telling(grpc.GenericRpcHandler):
    """A runtime that answers every call with texts wherever one can stand, or with an error of them."""

    def __init__(self) -> None:
        self.is_failing = False
        self.answers: dict[str, Message] = {}
        self.chunks_wanted: list[bool] = []
        self._methods = {f"/{method.containing_service.full_name}/{method.name}": method for method in METHODS}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = self._methods.get(handler_call_details.method)
        if method is None:
            return None

        async def one(_wire: bytes, context: Any) -> bytes:
            if self.is_failing:
                failure = InvalidRequest(f"no {SECRET}", violations=[FieldViolation("x", f"{SECRET}?")])
                await context.abort_with_status(rpc_status.to_status(to_status(failure)))
            return (self.answers.get(method.name) or filled(method.output_type, SECRET)[0]).SerializeToString()

        async def several(wire: bytes, _context: Any) -> AsyncIterator[bytes]:
            answers: list[Any] = filled(method.output_type, SECRET)
            if method.containing_service.name == "BatchService":
                for each in answers:
                    yield each.SerializeToString()
                return
            self.chunks_wanted.append(GetMessageClass(method.input_type).FromString(wire).token_chunks)  # type: ignore[attr-defined]
            ended = [each for each in answers if each.event.HasField("run_ended")]
            for number, each in enumerate([*(each for each in answers if each not in ended), ended[0]], start=1):
                each.event.run_id, each.event.sequence = RUN_ID, number
                yield each.SerializeToString()

        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(several)
        return grpc.unary_unary_rpc_method_handler(one)


@pytest.fixture
async def telling() -> AsyncIterator[tuple[Telling, str]]:
    server, handler = grpc.aio.server(), Telling()
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield handler, f"ipv4:127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def platform(start_platform: StartPlatform, telling: tuple[Telling, str], tmp_path: Path) -> Platform:
    rules = tmp_path / "redaction.yaml"
    rules.write_text(RULES)
    return await start_platform(runtime_target=telling[1], batches_target=telling[1], redaction_file=rules)


async def told(platform: Platform, method: MethodDescriptor, roles: list[str]) -> list[Message]:
    """Returns what a caller is told by a method."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    answer_type = GetMessageClass(method.output_type)
    codec = {
        "request_serializer": lambda request: request.SerializeToString(),
        "response_deserializer": answer_type.FromString,
    }
    request, metadata = request_of(method), platform.auth(roles=roles)
    if method.server_streaming:
        call = platform.channel.unary_stream(path, **codec)
        return [each async for each in call(request, metadata=metadata)]
    return [await platform.channel.unary_unary(path, **codec)(request, metadata=metadata)]


def seen(answers: list[Message]) -> bool:
    """Whether any of the answers has the secret beside names."""
    named = {f"signalbox.v1.{message}.{field}" for message, fields in NAMES.items() for field in fields}
    return any(SECRET in text and not named & set(path) for each in answers for path, text in texts_of(each))


async def test_no_method_tells_what_is_masked(platform: Platform, telling: tuple[Telling, str]) -> None:
    for method in METHODS:
        answers = await told(platform, method, ["operator"])
        assert answers
        assert not seen(answers), method.full_name
    # What models say comes in pieces, in which nothing is found: they are not asked for.
    assert telling[0].chunks_wanted == [False, False]


async def test_who_sees_only_their_own_is_told_all_of_it(platform: Platform, telling: tuple[Telling, str]) -> None:
    for method in METHODS:
        service = method.containing_service.name
        if service == "MaintenanceService":
            continue
        is_seen = seen(await told(platform, method, []))
        # Questions may be of others' runs.
        has_content = seen(filled(method.output_type, SECRET))
        assert is_seen == (has_content and service != "QuestionService"), method.full_name
    assert telling[0].chunks_wanted == [True, True]


@pytest.mark.parametrize("name", ["GetRun", "ListQuestions", "CreateRun"])
async def test_no_error_tells_it(platform: Platform, telling: tuple[Telling, str], name: str) -> None:
    telling[0].is_failing = True
    [method] = [each for each in METHODS if each.name == name]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await told(platform, method, ["operator"])
    detail = error_detail(refused.value)
    assert (detail.reason, detail.message) == ("INVALID_REQUEST", f"no {MARK}")
    assert [each.description for each in detail.violations] == [f"{MARK}?"]
    assert SECRET not in str(refused.value)


async def test_http_tells_what_the_gateway_does(platform: Platform, telling: tuple[Telling, str]) -> None:
    schema, values = Struct(), Struct()
    schema.update({"default": SECRET})
    values.update({"mail": [f"To {SECRET}!"]})
    asked = runs_pb2.Interrupt(interrupt_id="i", payload=Value(string_value=SECRET), answer_schema=schema)
    run = runs_pb2.Run(run_id=RUN_ID, agent="mine", thread_id="talk", state=runs_pb2.RUN_STATE_AWAITING_INPUT)
    run.input_request.interrupts.append(asked)
    run.labels["team"] = SECRET
    state = threads_pb2.ThreadState(run_id=RUN_ID, values=values, checkpoint=threads_pb2.Checkpoint(checkpoint_id="1"))
    telling[0].answers |= {
        "GetRun": runs_pb2.GetRunResponse(run=run),
        "GetThread": threads_pb2.GetThreadResponse(runs=[run]),
        "ListRuns": runs_pb2.ListRunsResponse(runs=[run]),
        "GetRunState": threads_pb2.GetRunStateResponse(state=state, checkpoints=[state.checkpoint]),
    }
    settings = HttpApiSettings(gateway_target="unused")
    streams = Streams(most=1, heartbeat_s=1, send_timeout_s=1)
    app = make_app(Gateway(platform.channel, call_timeout_s=settings.call_timeout_s), settings, streams)
    headers = {"x-api-key": platform.token(roles=["operator"])}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://signalbox.test", headers=headers
    ) as client:
        state_told = await client.get("/threads/talk/state")
        run_told = await client.get(f"/threads/talk/runs/{RUN_ID}")
    assert (state_told.json()["values"], run_told.json()["metadata"]["team"]) == ({"mail": [f"To {MARK}!"]}, MARK)
    assert f'"default":"{MARK}"' in state_told.text
    assert SECRET not in state_told.text + run_told.text


async def test_an_answer_that_is_too_large_with_its_marks_is_told_without_content(
    start_platform: StartPlatform, telling: tuple[Telling, str], tmp_path: Path
) -> None:
    (tmp_path / "rules").write_text(RULES)
    runs = [runs_pb2.Run(run_id=RUN_ID, title="a@b.de " * 900) for _ in range(10)]
    telling[0].answers["ListRuns"] = runs_pb2.ListRunsResponse(runs=runs)
    platform = await start_platform(
        runtime_target=telling[1], redaction_file=tmp_path / "rules", max_message_bytes=65_536
    )
    [method] = [each for each in METHODS if each.name == "ListRuns"]
    [answer] = await told(platform, method, ["operator"])
    assert isinstance(answer, runs_pb2.ListRunsResponse)
    assert {(run.run_id, run.title) for run in answer.runs} == {(RUN_ID, WITHHELD)}


async def test_a_gateway_with_a_wrong_rule_does_not_start(
    start_platform: StartPlatform, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "redaction.yaml"
    rules.write_text("rules: [{name: email, pattern: '('}]")
    with pytest.raises(SystemExit):
        await start_platform(redaction_file=rules)
    assert "not a pattern of RE2" in capsys.readouterr().err
