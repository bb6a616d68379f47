"""A gateway that says what a test tells it to, over gRPC: runs, questions and decisions, and every kind of failure."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import grpc
from google.protobuf import struct_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_status import rpc_status
from signalbox.v1 import (
    agents_pb2,
    agents_pb2_grpc,
    maintenance_pb2,
    maintenance_pb2_grpc,
    policy_pb2,
    questions_pb2,
    questions_pb2_grpc,
    recorded_answers_pb2,
    runs_pb2,
    runs_pb2_grpc,
    threads_pb2,
    threads_pb2_grpc,
)

from services.console.explained import Explained
from services.kit.errors import SignalboxError, to_status
from tests.fixtures.walked_run import RUN_ID

Context = grpc.aio.ServicerContext[Any, Any]
PAGE_TOKEN = "page-2"


class Refusal(SignalboxError):
    """What the gateway answers with."""

    reason = "SO_IT_IS"


def refusal(code: grpc.StatusCode, message: str = "no", **more: Any) -> SignalboxError:
    """Returns an error of a code."""

    class Coded(Refusal):
        pass

    Coded.code = code
    return Coded(message, **more)


def not_recorded() -> SignalboxError:
    """Returns how the platform refuses answers that were not recorded."""

    class RunNotRecorded(SignalboxError):
        code = grpc.StatusCode.FAILED_PRECONDITION
        reason = "RUN_NOT_RECORDED"

    return RunNotRecorded("the run was not recorded")


def limit_change(changed_by: str) -> maintenance_pb2.LimitChange:
    """Returns a change of a limit of `data_chat` by somebody, or by who is not told."""
    limit = maintenance_pb2.ChangedLimit(
        name="max_iterations",
        old_value=struct_pb2.Value(number_value=5),
        new_value=struct_pb2.Value(number_value=3),
        source=maintenance_pb2.LIMIT_SOURCE_FILE,
        routers=["data_chat.route_after_agent"],
    )
    reason = "the runs were long" if changed_by else ""
    return maintenance_pb2.LimitChange(
        agent="data_chat",
        change_time=Timestamp(seconds=1_790_000_000),
        limits=[limit],
        release="1.1",
        revision=7,
        changed_by=changed_by,
        reason=reason,
    )


class FakeGateway(
    runs_pb2_grpc.RunServiceServicer,
    questions_pb2_grpc.QuestionServiceServicer,
    agents_pb2_grpc.AgentServiceServicer,
    maintenance_pb2_grpc.MaintenanceServiceServicer,
    threads_pb2_grpc.ThreadServiceServicer,
):
    """Serves a run as it was explained, a question, and what else a test puts in; writes down who asked for what."""

    routers: ClassVar[Sequence[str]] = ("data_chat.route_after_agent",)

    def __init__(self, shown: Explained) -> None:
        self.shown = shown
        self.runs: dict[str, runs_pb2.Run] = {shown.run.run_id: shown.run}
        # Pages of decisions of many runs: the token leads to the second one.
        self.pages: list[list[runs_pb2.Decision]] = [list(shown.decisions)]
        self.counts: list[runs_pb2.DecisionCount] = []
        self.is_partial = False
        self.run_counts = runs_pb2.CountRunsResponse()
        self.counted_since = runs_pb2.CountRunsRequest()
        self.question = questions_pb2.Question(run_id=shown.run.run_id, state=questions_pb2.QUESTION_STATE_OPEN)
        self.policy = policy_pb2.Policy(version="in-force")
        self.events: list[runs_pb2.RunEvent] = []
        self.answers: list[questions_pb2.AnswerQuestionRequest] = []
        self.created: list[runs_pb2.CreateRunRequest] = []
        self.create_failure: SignalboxError | None = None
        self.cancelled: list[str] = []
        self.hosted: list[agents_pb2.Agent] = []
        self.forks: list[threads_pb2.ForkRunRequest] = []
        self.state = threads_pb2.ThreadState()
        self.state_failure: SignalboxError | None = None
        self.heard: list[recorded_answers_pb2.RecordedAnswer] | None = []
        self.replays: list[maintenance_pb2.ReplayDecisionsRequest] = []
        self.limit_changes = [limit_change("ops@example.com")]
        self.limit_changes_failure: SignalboxError | None = None
        self.failure: SignalboxError | None = None
        self.answer_failure: SignalboxError | None = None
        self.list_failure: SignalboxError | None = None
        self.explain_failure: SignalboxError | None = None
        self.failure_of_runs: SignalboxError | None = None
        self.calls: list[str] = []
        self.tokens: set[str] = set()

    async def _called(self, method: str, context: Context, failure: SignalboxError | None = None) -> None:
        self.calls.append(method)
        self.tokens |= {str(value) for key, value in context.invocation_metadata() or () if key == "authorization"}
        if wrong := self.failure or failure:
            await context.abort_with_status(rpc_status.to_status(to_status(wrong)))

    async def ListRuns(self, request: runs_pb2.ListRunsRequest, context: Context) -> runs_pb2.ListRunsResponse:
        await self._called("ListRuns", context, self.list_failure)
        runs = [run for run in self.runs.values() if run.run_id.startswith(request.run_id_prefix)]
        return runs_pb2.ListRunsResponse(runs=runs[: request.page_size])

    async def GetRun(self, request: runs_pb2.GetRunRequest, context: Context) -> runs_pb2.GetRunResponse:
        there_is_none = None if request.run_id in self.runs else refusal(grpc.StatusCode.NOT_FOUND, "no such run")
        await self._called("GetRun", context, self.failure_of_runs or there_is_none)
        return runs_pb2.GetRunResponse(run=self.runs[request.run_id])

    async def ListDecisions(
        self, request: runs_pb2.ListDecisionsRequest, context: Context
    ) -> runs_pb2.ListDecisionsResponse:
        await self._called("ListDecisions", context, self.list_failure)
        if request.run_id:
            return runs_pb2.ListDecisionsResponse(decisions=self.shown.decisions)
        number = 1 if request.page_token == PAGE_TOKEN else 0
        token = PAGE_TOKEN if number + 1 < len(self.pages) else ""
        found = [each for each in self.pages[number] if request.rule in ("", each.rule)]
        return runs_pb2.ListDecisionsResponse(decisions=found, next_page_token=token)

    async def CountDecisions(
        self, _request: runs_pb2.CountDecisionsRequest, context: Context
    ) -> runs_pb2.CountDecisionsResponse:
        await self._called("CountDecisions", context)
        count = sum(each.count for each in self.counts)
        return runs_pb2.CountDecisionsResponse(counts=self.counts, decision_count=count, is_partial=self.is_partial)

    async def CountRuns(self, request: runs_pb2.CountRunsRequest, context: Context) -> runs_pb2.CountRunsResponse:
        self.counted_since = request
        await self._called("CountRuns", context, self.list_failure)
        return self.run_counts

    async def ExplainRun(self, _request: runs_pb2.ExplainRunRequest, context: Context) -> runs_pb2.ExplainRunResponse:
        await self._called("ExplainRun", context, self.explain_failure)
        return runs_pb2.ExplainRunResponse(explanations=self.shown.told.values(), run=self.shown.story)

    async def WatchRun(
        self, request: runs_pb2.WatchRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.WatchRunResponse]:
        await self._called("WatchRun", context)
        for event in self.events:
            if event.sequence > request.after_sequence or (request.token_chunks and not event.sequence):
                yield runs_pb2.WatchRunResponse(event=event)

    async def ListAgents(
        self, _request: agents_pb2.ListAgentsRequest, context: Context
    ) -> agents_pb2.ListAgentsResponse:
        await self._called("ListAgents", context)
        agent = agents_pb2.Agent(name="data_chat", routers=self.routers, policy=self.policy)
        return agents_pb2.ListAgentsResponse(agents=[agent, *self.hosted])

    async def ListLimitChanges(
        self, request: maintenance_pb2.ListLimitChangesRequest, context: Context
    ) -> maintenance_pb2.ListLimitChangesResponse:
        await self._called("ListLimitChanges", context, self.limit_changes_failure)
        changes = [each for each in self.limit_changes if each.agent == request.agent]
        return maintenance_pb2.ListLimitChangesResponse(changes=changes)

    async def CreateRun(self, request: runs_pb2.CreateRunRequest, context: Context) -> runs_pb2.CreateRunResponse:
        self.created.append(request)
        await self._called("CreateRun", context, self.create_failure)
        return runs_pb2.CreateRunResponse(run=self.shown.run)

    async def CancelRun(self, request: runs_pb2.CancelRunRequest, context: Context) -> runs_pb2.CancelRunResponse:
        self.cancelled.append(request.run_id)
        await self._called("CancelRun", context)
        return runs_pb2.CancelRunResponse(run=self.shown.run)

    async def ListRecordedAnswers(
        self, _request: runs_pb2.ListRecordedAnswersRequest, context: Context
    ) -> runs_pb2.ListRecordedAnswersResponse:
        recorded = None if self.heard is not None else not_recorded()
        await self._called("ListRecordedAnswers", context, recorded)
        return runs_pb2.ListRecordedAnswersResponse(answers=self.heard)

    async def ListThreads(
        self, _request: threads_pb2.ListThreadsRequest, context: Context
    ) -> threads_pb2.ListThreadsResponse:
        await self._called("ListThreads", context)
        return threads_pb2.ListThreadsResponse(threads=self._threads())

    async def GetThread(self, request: threads_pb2.GetThreadRequest, context: Context) -> threads_pb2.GetThreadResponse:
        found = [each for each in self._threads() if each.thread_id == request.thread_id]
        await self._called("GetThread", context, None if found else refusal(grpc.StatusCode.NOT_FOUND))
        runs = [run for run in self.runs.values() if run.thread_id == request.thread_id]
        return threads_pb2.GetThreadResponse(thread=found[0], runs=runs)

    async def GetRunState(
        self, request: threads_pb2.GetRunStateRequest, context: Context
    ) -> threads_pb2.GetRunStateResponse:
        await self._called("GetRunState", context, self.state_failure)
        checkpoints = [threads_pb2.Checkpoint(checkpoint_id=f"checkpoint-{step}", step=step) for step in range(4)]
        state = threads_pb2.ThreadState()
        state.CopyFrom(self.state)
        state.checkpoint.CopyFrom(checkpoints[request.step if request.HasField("step") else -1])
        return threads_pb2.GetRunStateResponse(state=state, checkpoints=checkpoints)

    async def ForkRun(self, request: threads_pb2.ForkRunRequest, context: Context) -> threads_pb2.ForkRunResponse:
        self.forks.append(request)
        await self._called("ForkRun", context, self.create_failure)
        return threads_pb2.ForkRunResponse(run=self.shown.run)

    def _threads(self) -> list[threads_pb2.Thread]:
        names = {run.thread_id for run in self.runs.values() if run.thread_id}
        return [threads_pb2.Thread(thread_id=name, run_count=1) for name in sorted(names)]

    async def ListQuestions(
        self, _request: questions_pb2.ListQuestionsRequest, context: Context
    ) -> questions_pb2.ListQuestionsResponse:
        await self._called("ListQuestions", context, self.list_failure)
        return questions_pb2.ListQuestionsResponse(questions=[self.question])

    async def GetQuestion(
        self, _request: questions_pb2.GetQuestionRequest, context: Context
    ) -> questions_pb2.GetQuestionResponse:
        await self._called("GetQuestion", context)
        return questions_pb2.GetQuestionResponse(question=self.question)

    async def AnswerQuestion(
        self, request: questions_pb2.AnswerQuestionRequest, context: Context
    ) -> questions_pb2.AnswerQuestionResponse:
        self.answers.append(request)
        await self._called("AnswerQuestion", context, self.answer_failure)
        return questions_pb2.AnswerQuestionResponse(question=self.question)

    async def AssignQuestion(
        self, request: questions_pb2.AssignQuestionRequest, context: Context
    ) -> questions_pb2.AssignQuestionResponse:
        await self._called("AssignQuestion", context)
        self.question.assignee = request.assignee
        return questions_pb2.AssignQuestionResponse(question=self.question)

    async def ReplayDecisions(
        self, request: maintenance_pb2.ReplayDecisionsRequest, context: Context
    ) -> maintenance_pb2.ReplayDecisionsResponse:
        self.replays.append(request)
        await self._called("ReplayDecisions", context)
        return maintenance_pb2.ReplayDecisionsResponse(run_count=4, decision_count=9, diverged_count=3)


def waiting(roles: Sequence[str] = (), assignee: str = "") -> questions_pb2.Question:
    """A question that this caller may answer."""
    return questions_pb2.Question(
        run_id=RUN_ID,
        input_request=runs_pb2.InputRequest(
            input_request_id="q-1", question="Delete it?", options=["approve", "decline"]
        ),
        agent="graph_editor",
        subject="ann",
        plan_hash="plan-1",
        for_caller=True,
        roles=roles,
        assignee=assignee,
        state=questions_pb2.QUESTION_STATE_OPEN,
        right=runs_pb2.ANSWER_RIGHT_CALLER,
    )


def fake_gateway(shown: Explained) -> FakeGateway:
    """Returns a gateway that serves a run; what the console never calls is UNIMPLEMENTED."""
    return FakeGateway(shown)  # type: ignore[abstract]


@asynccontextmanager
async def serving(
    fake: FakeGateway, port: int = 0, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[int]:
    """Serves on loopback, and yields the port; what is asked afterwards finds nobody there."""
    server = grpc.aio.server()
    runs_pb2_grpc.add_RunServiceServicer_to_server(fake, server)
    questions_pb2_grpc.add_QuestionServiceServicer_to_server(fake, server)
    agents_pb2_grpc.add_AgentServiceServicer_to_server(fake, server)
    threads_pb2_grpc.add_ThreadServiceServicer_to_server(fake, server)
    maintenance_pb2_grpc.add_MaintenanceServiceServicer_to_server(fake, server)
    address = f"127.0.0.1:{port}"
    bound = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(None)
