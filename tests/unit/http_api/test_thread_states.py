"""A thread's states, where some can't be read."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from signalbox.v1 import runs_pb2, threads_pb2

from services.http_api import thread_states
from services.http_api.errors import Conflict, NotFound
from services.http_api.json_bodies import value_of
from services.http_api.run_steps import STATES_AT_ONCE
from services.http_api.thread_states import STATE_UNREADABLE, Place, ThreadStates, place_of

NAMES = ("newest", "middle", "oldest")


class FakeCaller:
    """A gateway with a thread of three runs of two states; what the states of some are instead, it is told."""

    subject = "ana"
    step_count = 2
    tasks: Sequence[threads_pb2.Task] = ()

    def __init__(self, *names: str, **instead: Exception) -> None:
        self.asked: list[str] = []
        self.call_count = 0
        self._names = names or NAMES
        self._instead = instead
        self.stubs = SimpleNamespace(
            threads=SimpleNamespace(GetRunState=self._state, ListRunStates=self._page_of_states),
            runs=SimpleNamespace(ListRuns=self._page, GetRun=self._run),
        )

    async def call(self, method: Any, request: Any) -> Any:
        self.call_count += 1
        return method(request)

    def run(self, name: str) -> runs_pb2.Run:
        """Returns a run; each was created a second before the one that comes before it."""
        made = runs_pb2.Run(run_id=name, agent=agent_of(name), rolled_back_by="later" if "undone" in name else "")
        made.thread_id = "other" if name == "elsewhere" else "t"
        made.caller.subject = "ana"
        made.create_time.FromSeconds(1_000_000 - self._names.index(name))
        return made

    def _page(self, request: runs_pb2.ListRunsRequest) -> runs_pb2.ListRunsResponse:
        assert (request.thread_id, request.subject) == ("t", "ana")
        begun = int(request.page_token or 0)
        until = request.until_time.ToNanoseconds() or float("inf")
        found = [
            run
            for run in map(self.run, self._names)
            if run.create_time.ToNanoseconds() < until and request.agent in ("", run.agent)
        ]
        following = begun + request.page_size
        return runs_pb2.ListRunsResponse(
            runs=found[begun:following], next_page_token=str(following if following < len(found) else "")
        )

    def _run(self, request: runs_pb2.GetRunRequest) -> runs_pb2.GetRunResponse:
        if request.run_id not in self._names:
            raise NotFound("no such run")
        return runs_pb2.GetRunResponse(run=self.run(request.run_id))

    def _state(self, request: threads_pb2.GetRunStateRequest) -> threads_pb2.GetRunStateResponse:
        self.asked.append(request.run_id)
        if error := self._instead.get(request.run_id):
            raise error
        made = [self._after(request.run_id, step) for step in range(self.step_count)]
        return threads_pb2.GetRunStateResponse(state=made[-1], checkpoints=[each.checkpoint for each in made])

    def _page_of_states(self, request: threads_pb2.ListRunStatesRequest) -> threads_pb2.ListRunStatesResponse:
        assert request.newest_first
        before = int(request.page_token or request.before_step)
        steps = range(before - 1, max(before - 1 - request.page_size, -1), -1)
        return threads_pb2.ListRunStatesResponse(
            states=[self._after(request.run_id, step) for step in steps],
            next_page_token=str(steps[-1]) if steps[-1] > 0 else "",
        )

    def _after(self, run_id: str, step: int) -> threads_pb2.ThreadState:
        checkpoint_id = chr(ord("a") + step)
        made = threads_pb2.ThreadState(
            checkpoint=threads_pb2.Checkpoint(checkpoint_id=checkpoint_id, step=step, next_nodes=["model"])
        )
        made.values.update({"of": run_id, "step": step})
        made.tasks.extend(self.tasks)
        return made


def agent_of(name: str) -> str:
    return "review" if name.startswith("review") else "talk"


def states(caller: FakeCaller) -> ThreadStates:
    asked: Any = caller
    return ThreadStates(asked, "t")


async def test_a_state_that_can_not_be_read_is_none() -> None:
    caller = FakeCaller(newest=Conflict("types are not there", reason=STATE_UNREADABLE))
    assert (await states(caller).head())["values"]["of"] == "middle"
    with pytest.raises(Conflict):
        await states(FakeCaller(newest=Conflict("other"))).head()


async def test_no_run_is_looked_at_behind_the_state_that_is_asked_for() -> None:
    caller = FakeCaller()
    found = await states(caller).at(Place("middle", "b"))
    assert found["values"]["of"] == "middle"
    assert "oldest" not in caller.asked
    with pytest.raises(NotFound):
        await states(caller).at(Place("middle", "c"))


async def test_runs_of_other_agents_are_not_looked_at_for_where_one_began() -> None:
    caller = FakeCaller("review 2", *NAMES, "review 1", "first")
    found = await states(caller).at(Place("review 2", "a"))
    assert found["parent_checkpoint"]["checkpoint_id"] == Place("review 1", "b").id
    assert set(caller.asked) == {"review 2", "review 1"}


async def test_states_of_the_first_of_many_runs_are_there() -> None:
    names = [f"run {number}" for number in range(250, 0, -1)]
    of_many = states(FakeCaller(*names))
    assert len(await of_many.history(1000)) == 500
    caller = FakeCaller(*names)
    found = await states(caller).at(Place("run 1", "a"))
    assert (found["values"]["of"], found["metadata"]["run_id"]) == ("run 1", "run 1")
    # Nor are the runs after it looked at.
    assert set(caller.asked) == {"run 1"}
    before = await of_many.history(10, before=Place("run 2", "b"))
    assert [each["metadata"]["run_id"] for each in before] == ["run 2", "run 1", "run 1"]
    assert await of_many.history(10, before=place_of("RUN 2:b")) == before


async def test_a_page_costs_as_many_calls_in_a_long_thread_as_in_a_short_one() -> None:
    async def calls(run_count: int, run: int, *, at: bool = False) -> int:
        caller = FakeCaller(*(f"run {number}" for number in range(run_count, 0, -1)))
        place = Place(f"run {run}", "a")
        await (states(caller).at(place) if at else states(caller).history(10, before=place))
        return caller.call_count

    for run, at in ((20, False), (20, True), (1, False), (1, True)):
        assert await calls(2000, run, at=at) == await calls(30, run, at=at) <= 16
    # The first run of another agent follows none.
    caller = FakeCaller("review", *(f"run {number}" for number in range(2000)))
    assert (await states(caller).at(Place("review", "a")))["parent_checkpoint"] is None
    assert caller.call_count < 10


async def test_a_run_costs_a_call_for_a_page_of_its_states() -> None:
    async def cost(step_count: int) -> int:
        caller = FakeCaller("only")
        caller.step_count = step_count
        found = await states(caller).history(1000)
        assert [each["values"]["step"] for each in found] == list(range(step_count - 1, -1, -1))
        # Each follows the one that is told behind it.
        assert [each["parent_checkpoint"] for each in found] == [*(each["checkpoint"] for each in found[1:]), None]
        return caller.call_count

    one_page, half = await cost(STATES_AT_ONCE + 1), await cost(STATES_AT_ONCE // 2)
    assert one_page == half
    assert await cost(5 * STATES_AT_ONCE + 1) == one_page + 4
    # Of some, no others are read.
    caller = FakeCaller("only")
    caller.step_count = 30
    before = await states(caller).history(3, before=Place("only", chr(ord("a") + 20)))
    assert [each["values"]["step"] for each in before] == [19, 18, 17]


async def test_what_was_rolled_back_is_no_state_of_the_thread() -> None:
    of_thread = states(FakeCaller("newest", "undone", "first"))
    found = await of_thread.history(10)
    assert [each["values"]["of"] for each in found] == ["newest", "newest", "first", "first"]
    assert found[1]["parent_checkpoint"] == found[2]["checkpoint"]
    assert [each["values"]["of"] for each in await of_thread.history(10, before=Place("undone", "b"))] == ["first"] * 2
    with pytest.raises(NotFound):
        await of_thread.at(Place("undone", "b"))
    assert not await of_thread.has_run("undone", [])
    rolled_back = FakeCaller("undone", "first")
    assert await states(rolled_back).head_place([*map(rolled_back.run, ("undone", "first"))]) == Place("first", "b")


async def test_a_run_is_of_its_thread_however_many_came_after_it() -> None:
    of_thread = states(FakeCaller("newest", "first", "elsewhere"))
    latest = [runs_pb2.Run(run_id="newest", agent="talk", thread_id="t")]
    assert await of_thread.has_run("newest", latest)
    assert await of_thread.has_run("first", latest, "talk")
    assert not await of_thread.has_run("first", latest, "other")
    assert not await of_thread.has_run("elsewhere", latest)
    assert not await of_thread.has_run("none", latest)


async def test_a_history_ends_before_it_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_states, "MOST_BYTES", 20)
    reader = states(FakeCaller())
    found = await reader.history(thread_states.MOST_STATES)
    assert (len(found), reader.is_full) == (1, True)
    before = place_of(found[-1]["checkpoint"]["checkpoint_id"])
    monkeypatch.setattr(thread_states, "MOST_BYTES", 10_000)
    reader = states(FakeCaller())
    assert (len(await reader.history(thread_states.MOST_STATES, before=before)), reader.is_full) == (5, False)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (runs_pb2.RUN_STATE_FAILED, "it broke"),
        (runs_pb2.RUN_STATE_CANCELLED, "the run was cancelled"),
        (runs_pb2.RUN_STATE_NEEDS_REVIEW, "the run was ended by too_many_rounds before its answer"),
        (runs_pb2.RUN_STATE_RUNNING, None),
    ],
)
async def test_what_cut_a_run_off_is_told_of_its_task(state: runs_pb2.RunState, error: str | None) -> None:
    run = runs_pb2.Run(run_id="newest", agent="talk", state=state, error="it broke", stop_reason="too_many_rounds")
    [found] = await states(FakeCaller()).history(1, runs=[run])
    # Without an error pages take a node that is still to run for a breakpoint, at which they offer to go on.
    assert [task["error"] for task in found["tasks"]] == [error]


async def test_each_task_of_a_state_has_what_it_brought_asks_or_failed_by() -> None:
    written = [threads_pb2.TaskWrite(field="notes", value=value_of(each)) for each in ("a", "b")]
    asks = runs_pb2.Interrupt(interrupt_id="i", payload=value_of("Go on?"))
    caller = FakeCaller()
    caller.tasks = [
        threads_pb2.Task(task_id="1", name="done", writes=written, interrupts=[asks], has_ended=True),
        threads_pb2.Task(task_id="2", name="asks", interrupts=[asks]),
        threads_pb2.Task(task_id="3", name="failed", error="ValueError", has_ended=True),
        threads_pb2.Task(task_id="4", name="beside", error="CancelledError", has_ended=True),
    ]
    asking = runs_pb2.Run(run_id="newest", agent="talk", input_request=runs_pb2.InputRequest(interrupts=[asks]))
    last, earlier = await states(caller).history(2, runs=[asking])
    told = [(each["id"], each["name"], each["result"], len(each["interrupts"])) for each in last["tasks"]]
    # What has been answered is of earlier states alone.
    brought = {"notes": {"$writes": ["a", "b"]}}
    assert told == [("1", "done", brought, 0), ("2", "asks", None, 1), ("3", "failed", {}, 0), ("4", "beside", {}, 0)]
    assert (last["next"], last["interrupts"]) == (["asks", "failed", "beside"], [{"id": "i", "value": "Go on?"}])
    assert [len(each["interrupts"]) for each in earlier["tasks"]] == [1, 1, 0, 0]
    assert earlier["next"] == ["done", "asks", "failed", "beside"]
    ended = runs_pb2.Run(run_id="newest", state=runs_pb2.RUN_STATE_FAILED, error="the node 'failed' raised ValueError")
    [found] = await states(caller).history(1, runs=[ended])
    assert [each["error"] for each in found["tasks"]] == [None, None, ended.error, "CancelledError"]
