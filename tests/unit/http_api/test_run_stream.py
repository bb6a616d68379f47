"""What a run's stream tells of chunks that are taken back, of an end that was not heard, and of a gateway that goes."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from signalbox.v1 import agents_pb2, hosted_pb2, outcome_pb2, runs_pb2, threads_pb2

from services.http_api import run_results, run_steps, run_stream
from services.http_api.assistants import Assistant
from services.http_api.errors import GatewayAway, TooLate
from services.http_api.event_stream import CutOff, Part
from services.http_api.json_bodies import value_of
from services.http_api.reader import Position, Wanted, position_of
from services.http_api.run_request import CUSTOM, EVENTS, MESSAGES, TASKS, UPDATES, VALUES, WHOLE_MESSAGES
from services.http_api.run_results import problem_of
from services.http_api.run_stream import RunStream
from services.http_api.tasks import authors
from tests.fixtures.growth import growth

HOSTED = Assistant(agents_pb2.Agent(name="talk", input_type=hosted_pb2.GraphInput.DESCRIPTOR.full_name))
OWN = Assistant(agents_pb2.Agent(name="data_chat"))
BEGUN = runs_pb2.RunEvent(sequence=1)
Watch = Sequence[runs_pb2.RunEvent | Exception]


class FakeCaller:
    """A gateway whose watches tell what they are given, one after the other, the last again and again."""

    def __init__(self, *watches: Watch, states: Sequence[threads_pb2.ThreadState] = (), run: Any = None) -> None:
        self._watches = list(watches)
        self._states = list(states)
        self._run = run
        self.stubs = SimpleNamespace(
            call_timeout_s=5.0,
            runs=SimpleNamespace(GetRun=lambda _: runs_pb2.GetRunResponse(run=self._run)),
            threads=SimpleNamespace(GetRunState=self._state, ListRunStates=self._new_state),
        )

    async def watch(self, request: runs_pb2.WatchRunRequest) -> AsyncGenerator[runs_pb2.RunEvent, None]:
        for event in self._watches[0] if len(self._watches) == 1 else self._watches.pop(0):
            if isinstance(event, Exception):
                raise event
            if not event.sequence or event.sequence > request.after_sequence:
                yield event

    async def call(self, method: Any, request: Any) -> Any:
        return method(request)

    def _state(self, _request: threads_pb2.GetRunStateRequest) -> threads_pb2.GetRunStateResponse:
        return threads_pb2.GetRunStateResponse(state=self._states.pop(0))

    def _new_state(self, _request: threads_pb2.ListRunStatesRequest) -> threads_pb2.ListRunStatesResponse:
        return threads_pb2.ListRunStatesResponse(states=[self._states.pop(0)])


def stream(caller: FakeCaller, *modes: str, of: Assistant = HOSTED, **given: Any) -> RunStream:
    position, recovery_s = given.pop("position", Position()), given.pop("recovery_s", 60.0)
    asked: Any = caller
    wanted = Wanted(modes, given.pop("inside", False))
    return RunStream(asked, "r", of, wanted, position, recovery_s=recovery_s, **given)


async def told(of: RunStream) -> list[Part]:
    return [part async for part in of.parts()]


def chunk(text: str, offset: int = 0, **fields: Any) -> runs_pb2.RunEvent:
    said = {"node": "model", "message_id": "m", **fields}
    return runs_pb2.RunEvent(token_chunk=runs_pb2.TokenChunk(text=text, offset=offset, **said))


def reset(node: str) -> runs_pb2.RunEvent:
    return runs_pb2.RunEvent(tokens_reset=runs_pb2.TokensReset(node=node))


def ended(sequence: int = 3, **fields: Any) -> runs_pb2.RunEvent:
    run = runs_pb2.Run(run_id="r", **{"state": runs_pb2.RUN_STATE_SUCCEEDED, **fields})
    return runs_pb2.RunEvent(sequence=sequence, run_ended=runs_pb2.RunEnded(run=run))


def state(step: int, *content: str, following: Sequence[str] = ()) -> threads_pb2.ThreadState:
    made = threads_pb2.ThreadState(next_nodes=following)
    made.checkpoint.step = step
    made.values.update({"messages": [{"type": "ai", "id": "m", "content": each} for each in content]})
    return made


def said(parts: Sequence[Part]) -> list[tuple[str, str]]:
    return [(part.data[0]["type"], part.data[0]["content"]) for part in parts if part.event == "messages"]


WHOLE, WORDS = ("ai", "Hello there"), "AIMessageChunk"


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([chunk("Hello "), chunk("there", 6)], [(WORDS, "Hello "), (WORDS, "there")]),
        ([chunk("Hello "), chunk("lo there", 3)], [(WORDS, "Hello "), (WORDS, "there")]),
        ([chunk("Hello there", provisional=True)], [WHOLE]),
        ([chunk("Good"), reset("model"), chunk("bye", 4)], [(WORDS, "Good"), WHOLE]),
        ([chunk("Good"), reset(""), chunk("Good")], [(WORDS, "Good"), WHOLE]),
        ([chunk("Hello there"), reset("other")], [(WORDS, "Hello there")]),
        ([chunk("Hel"), chunk("here", 7)], [(WORDS, "Hel"), WHOLE]),
    ],
)
async def test_a_message_whose_chunks_stand_no_more_is_told_whole(
    chunks: list[runs_pb2.RunEvent], expected: list[tuple[str, str]]
) -> None:
    node = runs_pb2.NodeCompleted(node="model")
    begun, done = (runs_pb2.RunEvent(sequence=number, node_completed=node) for number in (1, 2))
    states = [state(0, following=["model"]), state(1, "Hello there"), state(1, "Hello there")]
    parts = await told(stream(FakeCaller([begun, *chunks, done, ended()], states=states), MESSAGES))
    assert said(parts) == expected


async def test_who_comes_in_the_middle_of_a_message_hears_it_from_its_first_word_and_goes_on_behind_any() -> None:
    node = runs_pb2.NodeCompleted(node="model")
    begun, done = (runs_pb2.RunEvent(sequence=number, node_completed=node) for number in (1, 2))
    states = [state(0, following=["model"]), state(1, "Hello there you"), state(1, "Hello there you")]
    words = [chunk("Hello "), chunk("there ", 6)]
    # What others have heard comes once more where somebody joins.
    parts = await told(
        stream(FakeCaller([begun, *words, *words, chunk("you", 12), done, ended()], states=states), MESSAGES)
    )
    assert said(parts) == [(WORDS, "Hello "), (WORDS, "there "), (WORDS, "you")]
    heard = next(part.id for part in parts if part.event == "messages" and part.data[0]["content"] == "there ")
    assert position_of(heard).id == heard
    states = [state(0, following=["model"]), state(1, "Hello there you"), state(1, "Hello there you")]
    caller = FakeCaller([begun, chunk("Hello there "), chunk("you", 12), done, ended()], states=states)
    assert said(await told(stream(caller, MESSAGES, position=position_of(heard)))) == [(WORDS, "you")]


async def test_chunks_that_come_behind_the_whole_message_are_not_told() -> None:
    node = runs_pb2.NodeCompleted(node="model")
    begun, done = (runs_pb2.RunEvent(sequence=number, node_completed=node) for number in (1, 2))
    states = [state(0, following=["model"]), state(1, "Hello there"), state(1, "Hello there")]
    caller = FakeCaller([begun, done, chunk("Hello "), chunk("there", 6), ended()], states=states)
    assert said(await told(stream(caller, MESSAGES))) == [WHOLE]


async def test_the_last_words_come_with_the_message_where_their_chunks_do_not() -> None:
    node = runs_pb2.NodeCompleted(node="model")
    begun, done = (runs_pb2.RunEvent(sequence=number, node_completed=node) for number in (1, 2))
    for mode, expected in ((MESSAGES, [(WORDS, "Hel"), (WORDS, "lo there")]), (WHOLE_MESSAGES, [("ai", "Hel"), WHOLE])):
        states = [state(0, following=["model"]), state(1, "Hello there"), state(1, "Hello there")]
        caller = FakeCaller([begun, chunk("Hel"), done, chunk("lo there", 3), ended()], states=states)
        parts = await told(stream(caller, mode))
        found = [part.data[0] for part in parts if part.event in ("messages", "messages/partial", "messages/complete")]
        assert [(each["type"], each["content"]) for each in found] == expected


async def test_messages_are_told_with_all_that_was_said_also_to_who_comes_back() -> None:
    node = runs_pb2.NodeCompleted(node="model")
    begun, done = (runs_pb2.RunEvent(sequence=number, node_completed=node) for number in (1, 2))
    words = [chunk("Hello "), chunk("there", 6)]

    def states() -> list[threads_pb2.ThreadState]:
        return [state(0, following=["model"]), state(1, "Hello there"), state(1, "Hello there")]

    parts = await told(stream(FakeCaller([begun, *words, *words, done, ended()], states=states()), WHOLE_MESSAGES))
    said_ = [(part.event, part.data) for part in parts if part.event.startswith("messages/")]
    assert [event for event, _ in said_] == ["messages/metadata", "messages/partial", "messages/partial"]
    assert [data[0]["content"] for event, data in said_[1:]] == ["Hello ", "Hello there"]
    heard = next(part.id for part in parts if part.event == "messages/partial")
    caller = FakeCaller([begun, *words, done, ended()], states=states())
    on = await told(stream(caller, WHOLE_MESSAGES, position=position_of(heard)))
    assert [part.data[0]["content"] for part in on if part.event.startswith("messages/")] == ["Hello there"]
    # Of what is known from its middle only, the message is told when it is there.
    caller = FakeCaller([begun, words[1], done, ended()], states=states())
    on = await told(stream(caller, WHOLE_MESSAGES))
    assert [part.event for part in on if part.event.startswith("messages/")] == [
        "messages/metadata",
        "messages/complete",
    ]


def task(name: str, **fields: Any) -> threads_pb2.Task:
    return threads_pb2.Task(task_id=f"{name} of a step", name=name, triggers=[f"branch:to:{name}"], **fields)


def of_tasks(of: threads_pb2.ThreadState, *following: str, ended: Sequence[threads_pb2.Task] = ()) -> Any:
    of.tasks.extend(task(name) for name in following)
    of.ended_tasks.extend(ended)
    return of


async def test_a_message_is_told_of_the_node_that_wrote_it() -> None:
    """Also one that its node gave no id, which it has got in the state, and a message that two nodes of a step say."""
    said_by = {"a": {"type": "ai", "content": "Hello"}, "b": {"type": "ai", "id": "m1", "content": "Hello"}}
    ended_tasks = [
        task(node, writes=[threads_pb2.TaskWrite(field="messages", value=value_of([message]))], has_ended=True)
        for node, message in said_by.items()
    ]
    after = of_tasks(threads_pb2.ThreadState(), ended=ended_tasks)
    after.checkpoint.step = 1
    after.values.update({"messages": [{"type": "ai", "id": each, "content": "Hello"} for each in ("m0", "m1")]})
    before = of_tasks(state(0, following=["a", "b"]), "a", "b")
    done = [runs_pb2.RunEvent(sequence=at, node_completed=runs_pb2.NodeCompleted(node="a")) for at in (1, 2)]
    parts = await told(stream(FakeCaller([*done, ended()], states=[before, after, after]), MESSAGES))
    assert [part.data[1]["langgraph_node"] for part in parts if part.event == "messages"] == ["a", "b"]


def test_nodes_of_many_messages_are_found_in_time_that_grows_as_they_do() -> None:
    def prepare(count: int) -> Callable[[], object]:
        messages = [{"type": "ai", "content": f"said {number}"} for number in range(count)]
        tasks = [task(f"n{number}") for number in range(count)]
        for each, message in zip(tasks, messages, strict=True):
            each.writes.add(field="messages", value=value_of([message]))

        def found() -> list[str]:
            author_of = authors(tasks)
            return [author_of({**message, "id": f"m{number}"}) for number, message in enumerate(messages)]

        assert found() == [each.name for each in tasks]
        return found

    assert growth(prepare, 100, 1_600) < 80


async def test_steps_are_told_whichever_of_two_releases_reads_each_state() -> None:
    """The one before tells no tasks, so it tells together what those of its step have changed."""
    states = [
        of_tasks(state(0, following=["model"]), "model"), state(1, "Hello", following=["model"]),
        of_tasks(state(2, "Hello", "there"), ended=[task("model", has_ended=True)]),
    ]  # fmt: skip
    states[2].ended_tasks[0].writes.add(field="messages", value=value_of("there"))
    done = [runs_pb2.RunEvent(sequence=at, node_completed=runs_pb2.NodeCompleted(node="model")) for at in (1, 2, 3)]
    parts = await told(stream(FakeCaller([*done, ended(4)], states=[*states, states[2]]), UPDATES))
    said = [part.data["model"]["messages"] for part in parts if part.event == UPDATES]
    assert [each if isinstance(each, str) else each[0]["content"] for each in said] == ["Hello", "there"]


async def test_words_come_behind_the_beginning_of_the_task_that_says_them() -> None:
    done = runs_pb2.RunEvent(sequence=2, node_completed=runs_pb2.NodeCompleted(node="model"))
    before = of_tasks(state(0, following=["model"]), "model")
    after = of_tasks(state(1, "Hello"), ended=[task("model", has_ended=True)])
    caller = FakeCaller([chunk("Hello"), done, ended()], states=[before, after, after])
    kinds = [(part.event, "result" in part.data) for part in await told(stream(caller, MESSAGES, TASKS)) if part.data]
    assert kinds == [("metadata", False), ("tasks", False), ("messages", False), ("tasks", True)]


def writes(
    *values: Any, offset: int = 0, sequence: int = 0, node: str = "model", attempt: str = "a"
) -> runs_pb2.RunEvent:
    written = runs_pb2.CustomWrites(node=node, attempt=attempt, offset=offset)
    written.writes.extend(
        each if isinstance(each, runs_pb2.CustomWrite) else runs_pb2.CustomWrite(json=json.dumps(each))
        for each in values
    )
    event = runs_pb2.RunEvent(sequence=sequence, custom_writes=[written])
    if sequence:
        event.node_completed.node = node
    return event


@pytest.mark.parametrize(
    "live",
    [
        [],
        [writes(1), writes(2, offset=1)],
        # Once more where somebody joins; with a gap; and behind the end of the node.
        [writes(1), writes(1, 2), writes(3, offset=2)],
        [writes(1), writes(3, offset=2)],
    ],
)
@pytest.mark.parametrize("late", [[], [writes(1), writes(2, 3, offset=1)]])
async def test_what_a_node_writes_is_told_once_however_it_comes(
    live: list[runs_pb2.RunEvent], late: list[runs_pb2.RunEvent]
) -> None:
    events = [*live, writes(1, 2, 3, sequence=1), *late, writes(4, sequence=2, attempt="b"), ended()]
    parts = await told(stream(FakeCaller(events, states=[]), CUSTOM))
    assert [part.data for part in parts if part.event == CUSTOM] == [1, 2, 3, 4]
    for part in parts[:-1]:
        again = await told(stream(FakeCaller(events, states=[]), CUSTOM, position=position_of(part.id)))
        behind = parts[parts.index(part) + 1 :]
        assert [each.data for each in again if each.event == CUSTOM] == [
            each.data for each in behind if each.event == CUSTOM
        ]


async def test_what_comes_before_the_question_that_was_answered_is_not_lost() -> None:
    """A run that has ended by the time at which it is read is told with what was told of it meanwhile before that."""
    question = runs_pb2.StateChanged(input_request=runs_pb2.InputRequest(input_request_id="q"))
    events = [writes(2, attempt="b"), runs_pb2.RunEvent(sequence=2, state_changed=question)]
    events = [writes(1, sequence=1), *events, writes(2, 3, sequence=3, attempt="b"), ended(4)]
    about, data = json.dumps({"event": "on_custom_event"}), [runs_pb2.CustomWrite(json="2")]
    for event in (events[1], events[3]):
        event.callback_events.add(claim="c", about=about, data=data)
    of = stream(FakeCaller(events, states=[]), CUSTOM, EVENTS, after_question="q")
    told_ = [(part.event, part.data) for part in await told(of)]
    assert [data for kind, data in told_ if kind == CUSTOM] == [2, 3]
    assert [data["data"] for kind, data in told_ if kind == EVENTS] == [2]


async def test_writes_of_graphs_inside_are_told_to_who_asks_and_what_is_left_out_is_said() -> None:
    left_out = runs_pb2.CustomWrite(left_out=runs_pb2.CUSTOM_WRITE_LEFT_OUT_TOO_LONG)
    events = [writes({"in": 1}, left_out, None, node="outer/inner", sequence=1), ended()]
    inside = stream(FakeCaller(events), CUSTOM, inside=True)
    found = [(part.event, part.data) for part in await told(inside)][1:-1]
    assert found == [
        ("custom|outer", {"in": 1}),
        ("custom/left_out", {"node": "outer/inner", "reason": "TOO_LONG"}),
        ("custom|outer", None),
    ]
    assert [part.event for part in await told(stream(FakeCaller(events), CUSTOM))] == ["metadata", "end"]


async def test_who_has_not_heard_how_a_run_failed_hears_it() -> None:
    output = runs_pb2.RunOutput()
    output.data_chat.answer = "half"
    end = ended(state=runs_pb2.RUN_STATE_NEEDS_REVIEW, stop_reason="max_steps", agent="data_chat", output=output)
    parts = await told(stream(FakeCaller([BEGUN, end]), VALUES, of=OWN))
    assert [(part.event, part.id) for part in parts[1:]] == [("values", ""), ("error", "3.-2"), ("end", "3.-2")]
    run = end.run_ended.run
    run.end_time.GetCurrentTime()
    again = await told(stream(FakeCaller([], run=run), VALUES, of=OWN, position=Position(3, -2)))
    assert [part.event for part in again] == ["error", "end"]


async def test_a_step_of_an_agent_of_the_platform_is_told_once() -> None:
    steps = [runs_pb2.RunEvent(sequence=at, node_completed=runs_pb2.NodeCompleted(node=f"n{at}")) for at in (1, 2)]
    watch = [*steps, ended()]
    first = next(part for part in await told(stream(FakeCaller(watch), UPDATES, of=OWN)) if part.event == UPDATES)
    again = await told(stream(FakeCaller(watch), UPDATES, of=OWN, position=position_of(first.id)))
    assert (first.data, [part.data for part in again]) == ({"n1": None}, [{"n2": None}, None])


def test_an_input_that_the_guard_refuses_is_a_problem() -> None:
    run = runs_pb2.Run(
        agent="data_chat", state=runs_pb2.RUN_STATE_SUCCEEDED, outcome=outcome_pb2.OUTCOME_BLOCKED,
        stop_reason="blocked", error="The guard says no.",
    )  # fmt: skip
    assert problem_of(run) == {"error": "blocked", "message": "The guard says no."}
    run.output.data_chat.answer = "That was blocked."
    assert problem_of(run) is None


class Clock:
    """A loop's time that goes on by what is slept, and by a quiet hour of a watch."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now

    async def sleep(self, pause_s: float) -> None:
        self.now += pause_s


async def test_recovery_is_counted_from_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(run_stream, "asyncio", SimpleNamespace(get_running_loop=lambda: clock, sleep=clock.sleep))

    class Quiet(FakeCaller):
        async def watch(self, request: runs_pb2.WatchRunRequest) -> AsyncGenerator[runs_pb2.RunEvent, None]:
            async for event in super().watch(request):
                yield event
                clock.now += 3600

    away = GatewayAway("away")
    end = ended()
    parts = await told(stream(Quiet([BEGUN, away], [away], [end]), VALUES, of=OWN))
    assert parts[-1].event == "end"
    clock.now = 0
    with pytest.raises(CutOff):
        await told(stream(Quiet([BEGUN, away], [away]), VALUES, of=OWN))
    assert 3660 < clock.now < 3670


async def test_a_change_of_a_state_is_waited_for_at_another_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_results, "FIRST_PAUSE_S", 0.01)
    caller: Any = FakeCaller([BEGUN, GatewayAway("it drains")], [BEGUN], [BEGUN, ended()])
    assert (await run_results.ended(caller, "r")).run_id == "r"
    late: Any = FakeCaller([GatewayAway("it drains")])
    late.stubs.call_timeout_s = 0.1
    with pytest.raises(TooLate, match="goes on by itself"):
        await run_results.ended(late, "r")


class LongRun(FakeCaller):
    """A run of so many steps, each with an event, that has ended; it counts the calls for its states."""

    def __init__(self, steps: int) -> None:
        node = runs_pb2.NodeCompleted(node="count")
        told = [runs_pb2.RunEvent(sequence=step, node_completed=node) for step in range(1, steps + 1)]
        super().__init__([*told, ended(steps + 1)])
        self.call_count = 0
        self._last_step = steps
        self.stubs.threads.ListRunStates = self._page

    def _page(self, request: threads_pb2.ListRunStatesRequest) -> threads_pb2.ListRunStatesResponse:
        self.call_count += 1
        begin = request.after_step + 1 if request.HasField("after_step") else 0
        begin = int(request.page_token or begin)
        end = min(begin + request.page_size, self._last_step + 1)
        found = [state(step, following=["count"]) for step in range(begin, end)]
        for each in found:
            each.values["count"] = each.checkpoint.step
        return threads_pb2.ListRunStatesResponse(
            states=found,
            next_page_token=str(end) if end <= self._last_step else "",
            last_sequence=self._last_step + 1,
        )


@pytest.mark.parametrize("heard", [-2, -1, 0, 10])
async def test_a_reader_that_comes_late_is_told_every_step(heard: int) -> None:
    found = await told(stream(LongRun(250), UPDATES, VALUES, position=Position(max(heard, 0), heard)))
    steps = list(range(max(heard + 1, 0), 251))
    assert [part.data["count"] for part in found if part.event == VALUES] == steps
    # Each is told as the change of its own step, too.
    changes = [part.data for part in found if part.event == UPDATES]
    assert changes == [{"count": {"count": step}} for step in steps if step > 0]


async def test_states_are_asked_for_by_the_page_however_many_events_tell_of_them() -> None:
    for pages in (1, 2, 8):
        caller = LongRun(pages * run_steps.STATES_AT_ONCE - 1)
        assert len(await told(stream(caller, VALUES))) > pages * run_steps.STATES_AT_ONCE
        assert caller.call_count == pages
