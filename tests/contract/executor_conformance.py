"""The contract of `ToolExecutorService` as a suite that any executor can be put through.

    class TestMyExecutor(WritingExecutorContract):          # ReadingExecutorContract when no tool writes
        @pytest.fixture
        async def subject(self) -> AsyncIterator[Subject]:
            async with running(...) as service, grpc.aio.insecure_channel(service.address) as channel:
                stub = ToolExecutorServiceStub(channel)
                yield Subject(stub, keys, reading=Sample("read_counter", {"name": "a"}),
                              writing=Sample("increment_counter", {...}, {...}, effects=count))

`executor_subject.py` says what a subject and its samples are.
"""

from __future__ import annotations

import asyncio
from uuid import uuid4

import grpc
import pytest
from google.protobuf import json_format
from jsonschema import Draft202012Validator
from signalbox.v1 import tools_pb2

from services.kit.errors import error_detail
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.keys import generate_keypair
from tests.contract.executor_subject import TIMEOUT_S, RunOf, Sample, Subject

RACES = 10
# Before and after the look-up and the application of a call, at least.
FEWEST_STEPS = 4
MOST_STEPS = 100
DENIED = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.FAILED_PRECONDITION)


class ReadingExecutorContract:
    """What every executor keeps: who may call, for which run, and what its tools say of themselves."""

    async def test_tools_describe_themselves(self, subject: Subject) -> None:
        metadata = (bearer_metadata(RunOf(subject).token()),)
        listed = (
            await subject.stub.ListTools(tools_pb2.ListToolsRequest(), metadata=metadata, timeout=TIMEOUT_S)
        ).tools
        names = [tool.name for tool in listed]
        assert names == sorted(set(names))
        assert subject.tools <= set(names)
        for tool in listed:
            assert tool.description
            schema = json_format.MessageToDict(tool.input_schema)
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        read_only = {tool.name: tool.read_only for tool in listed}
        assert read_only[subject.reading.tool]
        assert subject.writing is None or not read_only[subject.writing.tool]

    async def test_listing_needs_a_token(self, subject: Subject) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await subject.stub.ListTools(tools_pb2.ListToolsRequest(), timeout=TIMEOUT_S)
        assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED

    async def test_a_call_needs_a_token_of_the_runtime(self, subject: Subject) -> None:
        run = RunOf(subject)
        bad = [
            (),
            (("authorization", "Bearer nonsense"),),
            (bearer_metadata(run.token(keys=generate_keypair())),),
            (bearer_metadata(run.token(ttl_s=-600)),),
            (bearer_metadata(run.token(audience="signalbox-another-service")),),
        ]
        for metadata in bad:
            code, _ = await run.refused(subject.reading, metadata=metadata)
            assert code is grpc.StatusCode.UNAUTHENTICATED, metadata

    async def test_a_tool_that_the_token_does_not_name_is_refused(self, subject: Subject) -> None:
        run = RunOf(subject)
        code, reason = await run.refused(subject.reading, token=run.token(tools=frozenset({"another"})))
        assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, "TOOL_NOT_ALLOWED")

    async def test_an_unknown_tool_is_not_found(self, subject: Subject) -> None:
        run = RunOf(subject)
        token = run.token(tools=frozenset({"no_such_tool"}))
        code, reason = await run.refused(subject.reading, token=token, tool="no_such_tool")
        assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_TOOL")

    async def test_the_run_is_the_tokens(self, subject: Subject) -> None:
        run = RunOf(subject)
        code, _ = await run.refused(subject.reading, token=run.token(run_id=str(uuid4())))
        assert code in DENIED

    async def test_the_epoch_is_the_tokens(self, subject: Subject) -> None:
        run = RunOf(subject)
        code, _ = await run.refused(subject.reading, token=run.token(epoch=2))
        assert code in DENIED

    async def test_a_token_ends_with_its_claim(self, subject: Subject) -> None:
        run = RunOf(subject)
        late = run.token()
        await RunOf(subject, run.run_id, epoch=2).call(subject.reading)
        code, reason = await run.refused(subject.reading, token=late)
        assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "STALE_EPOCH")

    async def test_arguments_that_do_not_fit_are_told_to_the_model(self, subject: Subject) -> None:
        answer = await RunOf(subject).call(subject.reading, {"no_such_argument": True})
        assert answer.WhichOneof("outcome") == "error"
        assert answer.error.reason
        assert answer.error.message

    async def test_a_repeated_read_is_answered_the_same(self, subject: Subject) -> None:
        run = RunOf(subject)
        first, again = await run.call(subject.reading), await run.call(subject.reading)
        assert first.WhichOneof("outcome") == "output", first
        assert first == again

    async def test_only_an_executor_that_writes_keeps_results(self, subject: Subject) -> None:
        if subject.writing is not None:
            assert await RunOf(subject).look_up() is None
            return
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await RunOf(subject).look_up()
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


class WritingExecutorContract(ReadingExecutorContract):
    """What an executor with writing tools keeps besides: each call takes effect once, and no epoch goes back."""

    async def test_a_repeat_takes_no_effect_and_gets_the_first_result(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        before = await _effects(write)
        first, again = await run.call(write), await run.call(write)
        assert first.WhichOneof("outcome") == "output", first
        assert first == again
        assert await _effects(write) == before + 1

    async def test_repeats_at_the_same_time_take_effect_once(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        before = await _effects(write)
        answers = await asyncio.gather(*(run.call(write) for _ in range(8)))
        assert all(answer == answers[0] for answer in answers)
        assert await _effects(write) == before + 1

    async def test_a_repeat_after_a_takeover_gets_the_first_result(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        before = await _effects(write)
        first = await run.call(write)
        assert await RunOf(subject, run.run_id, epoch=2).call(write) == first
        assert await _effects(write) == before + 1

    async def test_a_call_is_known_by_its_run_and_its_operation(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        before = await _effects(write)
        first = await run.call(write)
        # The same operation, asked for again by a later step of the run.
        assert await RunOf(subject, run.run_id, checkpoint_id="checkpoint-2").call(write) == first
        assert await _effects(write) == before + 1
        await run.call(write, tool_call_id="call-2")
        await RunOf(subject).call(write)
        assert await _effects(write) == before + 3

    async def test_a_key_is_not_used_for_other_arguments(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        before = await _effects(write)
        first = await run.call(write)
        assert write.others is not None
        code, reason = await run.refused(write, write.others)
        assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "KEY_REUSED")
        assert await run.call(write) == first
        assert await _effects(write) == before + 1

    async def test_a_lower_epoch_is_refused(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        before = await _effects(write)
        await RunOf(subject, run.run_id, epoch=3).call(write)
        for stale in (1, 2):
            late = RunOf(subject, run.run_id, epoch=stale)
            for tool_call_id in ("call-1", "call-new"):
                code, reason = await late.refused(write, tool_call_id=tool_call_id)
                assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "STALE_EPOCH")
        await RunOf(subject, run.run_id, epoch=3).call(write, tool_call_id="call-2")
        await RunOf(subject, epoch=1).call(write)  # another run's epochs are its own
        assert await _effects(write) == before + 3

    async def test_a_refusal_is_kept_as_the_result(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        if write.failing is None:
            pytest.skip("no arguments make this tool refuse")
        before = await _effects(write)
        first, again = await run.call(write, write.failing), await run.call(write, write.failing)
        assert first.WhichOneof("outcome") == "error", first
        assert first == again
        assert await _effects(write) == before

    async def test_a_call_without_a_whole_key_is_refused(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        before = await _effects(write)
        for key in (
            tools_pb2.IdempotencyKey(run_id=run.run_id, tool_call_id="call-1"),
            tools_pb2.IdempotencyKey(run_id=run.run_id, checkpoint_id="checkpoint-1"),
            tools_pb2.IdempotencyKey(run_id=run.run_id, checkpoint_id="checkpoint-1", tool_call_id="x" * 257),
        ):
            code, _ = await run.refused(write, idempotency_key=key)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert await _effects(write) == before

    async def test_a_token_that_is_for_reading_writes_nothing(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        before = await _effects(write)
        code, reason = await run.refused(write, token=run.token(writes=False))
        assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, "WRITES_NOT_ALLOWED")
        answer = await run.call(subject.reading, token=run.token(writes=False))
        assert answer.WhichOneof("outcome") == "output"
        assert await run.look_up() is None
        assert await _effects(write) == before

    async def test_a_refusal_that_a_retry_can_mend_keeps_the_key_free(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        if write.later is None:
            pytest.skip("no arguments make this tool refuse for now")
        answer = await run.call(write, write.later)
        assert answer.error.retryable, answer
        assert await run.look_up() is None
        # Even other arguments find the key unused.
        assert (await run.call(write)).WhichOneof("outcome") == "output"

    async def test_a_lost_answer_is_looked_up_by_its_key(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        before = await _effects(write)
        assert await run.look_up() is None
        lost = asyncio.ensure_future(run.call(write))
        while (found := await run.look_up()) is None:
            assert not lost.done() or await run.look_up(), "it has answered, and nothing is kept"
        later = RunOf(subject, run.run_id, epoch=2)
        assert await later.look_up() == found == await lost
        assert await later.call(write) == found
        assert await _effects(write) == before + 1

    async def test_a_look_up_shuts_out_earlier_claims(self, subject: Subject) -> None:
        write, run = _writing(subject), RunOf(subject)
        before = await _effects(write)
        assert await RunOf(subject, run.run_id, epoch=2).look_up() is None
        for stub in filter(None, (subject.stub, subject.replica)):
            code, reason = await RunOf(subject.by(stub), run.run_id, epoch=1).refused(write)
            assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "STALE_EPOCH")
        assert await _effects(write) == before

    async def test_replicas_that_race_on_one_key_apply_it_once(self, subject: Subject) -> None:
        write = _writing(subject)
        if subject.replica is None:
            pytest.skip("this subject has no other replica")
        for _ in range(RACES):
            before = await _effects(write)
            here = RunOf(subject)
            there = RunOf(subject.by(subject.replica), here.run_id)
            answers = await asyncio.gather(*(one.call(write) for one in (here, there) * 4))
            assert all(answer == answers[0] for answer in answers)
            assert await _effects(write) == before + 1

    async def test_replicas_that_race_with_other_arguments_apply_one(self, subject: Subject) -> None:
        write = _writing(subject)
        if subject.replica is None or write.others is None:
            pytest.skip("this subject has no other replica")
        for _ in range(RACES):
            before = await _effects(write)
            here = RunOf(subject)
            there = RunOf(subject.by(subject.replica), here.run_id)
            ends = await asyncio.gather(here.call(write), there.call(write, write.others), return_exceptions=True)
            told = [error_detail(end).reason for end in ends if isinstance(end, grpc.aio.AioRpcError)]
            assert told == ["KEY_REUSED"], ends
            assert await _effects(write) == before + 1

    async def test_claims_that_race_leave_none_of_the_earlier_after_the_later(self, subject: Subject) -> None:
        write = _writing(subject)
        if subject.replica is None:
            pytest.skip("this subject has no other replica")
        for _ in range(RACES):
            before = await _effects(write)
            old = RunOf(subject)
            new = RunOf(subject.by(subject.replica), old.run_id, epoch=2)
            ends = await asyncio.gather(old.call(write), new.call(write), return_exceptions=True)
            assert isinstance(ends[1], tools_pb2.CallToolResponse), ends
            if isinstance(ends[0], grpc.aio.AioRpcError):
                assert error_detail(ends[0]).reason == "STALE_EPOCH"
            else:
                assert ends[0] == ends[1]
            assert await _effects(write) == before + 1

    async def test_a_process_killed_between_any_two_steps_applies_it_once(self, subject: Subject) -> None:
        write = _writing(subject)
        if subject.mortal is None:
            pytest.skip("this subject is no process")
        deaths = 0
        for step in range(1, MOST_STEPS):
            before = await _effects(write)
            run = RunOf(subject)
            async with subject.mortal(step) as stub:
                [first] = await asyncio.gather(RunOf(subject.by(stub), run.run_id).call(write), return_exceptions=True)
            died = not isinstance(first, tools_pb2.CallToolResponse)
            if isinstance(first, grpc.aio.AioRpcError):
                assert first.code() is grpc.StatusCode.UNAVAILABLE, first
                deaths += 1
            applied = await _effects(write) - before
            assert applied in (0, 1), step
            # Its successor has a later claim; what it is told must be what the one that died would have told.
            successor = RunOf(subject, run.run_id, epoch=2)
            kept = await successor.look_up()
            assert (kept is not None) == bool(applied), step
            answer = await successor.call(write)
            assert answer.WhichOneof("outcome") == "output", answer
            assert kept is None or answer == kept
            assert await _effects(write) == before + 1, step
            if not died:
                assert answer == first
                break
        assert deaths >= FEWEST_STEPS, "the process was to be killed on its way"


def _writing(subject: Subject) -> Sample:
    assert subject.writing is not None, "this suite needs a sample that writes"
    return subject.writing


async def _effects(sample: Sample) -> int:
    assert sample.effects is not None, "this suite needs to count effects"
    return await sample.effects()
