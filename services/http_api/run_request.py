"""What a client asks a run for, and what the platform is asked for then.

A field that the platform does not honour is refused in words, and not passed over; null is as if it were not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

from google.protobuf import json_format
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from signalbox.v1 import hosted_pb2, runs_pb2
from starlette.requests import Request

from services.http_api.assistants import Assistant
from services.http_api.errors import Invalid
from services.http_api.json_bodies import struct_of
from services.kit.errors import FieldViolation

VALUES, UPDATES, CUSTOM, CHECKPOINTS, TASKS, DEBUG = "values", "updates", "custom", "checkpoints", "tasks", "debug"
# What LangChain's callbacks tell.
EVENTS: Final = "events"
# What models say, word by word, or each time with all that was said of the message before.
MESSAGES, WHOLE_MESSAGES = "messages-tuple", "messages"
MODES: Final = (VALUES, UPDATES, MESSAGES, WHOLE_MESSAGES, CUSTOM, CHECKPOINTS, TASKS, DEBUG, EVENTS)
_REFUSED_MODES: Final = {
    "tools": "ask for updates, which has what tools gave back",
}
_POLICIES: Final = {
    "reject": runs_pb2.ACTIVE_RUN_POLICY_REFUSE,
    "enqueue": runs_pb2.ACTIVE_RUN_POLICY_QUEUE,
    "interrupt": runs_pb2.ACTIVE_RUN_POLICY_CANCEL_ACTIVE,
    "rollback": runs_pb2.ACTIVE_RUN_POLICY_ROLL_BACK_ACTIVE,
}
# What a graph with this agent as its node (`RemoteGraph`) was resumed with, by ids of interrupts.
_RESUMING, _RESUME_MAP = "__pregel_resuming", "__pregel_resume_map"
# Keys of a config that clients of LangGraph set by themselves, and that say nothing that the path does not.
_OWN_KEYS: Final = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map", _RESUMING, _RESUME_MAP)


# Where LangGraph's graphs end.
END_NODE: Final = "__end__"
BodyT = TypeVar("BodyT", bound="Body")
RESUME: Final = "resume"
# By it a repeat of a request is known.
IDEMPOTENCY_KEY: Final = "idempotency-key"


class Body(BaseModel):
    """A body of the protocol: fields that are null are not there, and those that are not known are refused."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        return {name: each for name, each in given.items() if each is not None} if isinstance(given, dict) else given


def key_of(request: Request) -> str:
    """Returns a request's own id; empty where it has none."""
    return request.headers.get(IDEMPOTENCY_KEY, "")


def read_body(kind: type[BodyT], document: Any) -> BodyT:
    """Returns a body. Raises Invalid with what is wrong with which field."""
    try:
        return kind.model_validate({} if document is None else document)
    except ValidationError as error:
        violations = [
            FieldViolation(".".join(map(str, each["loc"])), each["msg"])
            for each in error.errors(include_url=False, include_input=False, include_context=False)[:20]
        ]
        raise Invalid("the body does not have the form of this request", violations=violations) from error


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def check_modes(modes: list[str]) -> list[str]:
    """Returns stream modes that the platform has. Raises Invalid."""
    for mode in modes:
        if mode not in MODES:
            instead = _REFUSED_MODES.get(mode, f"there are {', '.join(MODES)}")
            raise Invalid(f"stream_mode: {mode[:40]!r} is not offered; {instead}")
    return list(dict.fromkeys(modes))


class Command(Body):
    """A command to a graph: the answer to what it asks, which may be null."""

    resume: Any = None
    update: Any = None
    goto: Any = None

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: each for name, each in given.items() if each is not None or name == RESUME}


class Checkpoint(Body):
    """A checkpoint as clients give it back."""

    thread_id: str = ""
    checkpoint_ns: str = ""
    checkpoint_id: str = ""
    checkpoint_map: dict[str, Any] = Field(default_factory=dict)

    def check_of(self, thread_id: str) -> None:
        """Raises Invalid for one of another thread, or of a graph inside a node."""
        if self.thread_id not in ("", thread_id):
            raise Invalid(f"checkpoint.thread_id: names another thread than the path, which is of {thread_id!r}")
        if self.checkpoint_ns:
            raise Invalid("checkpoint.checkpoint_ns: states of graphs inside nodes are not told")


class Config(Body):
    """A config: what a graph reads from it is `configurable`; the rest has no effect here."""

    configurable: dict[str, Any] = Field(default_factory=dict)
    tags: Any = None
    metadata: Any = None
    recursion_limit: Any = None
    max_concurrency: Any = None
    run_name: Any = None
    run_id: Any = None
    callbacks: Any = None


class RunBody(Body):
    """What a run is asked for."""

    assistant_id: Annotated[str, Field(min_length=1, max_length=64)]
    input: Any = None
    command: Command | None = None
    config: Config = Config()
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    stream_mode: Annotated[list[str], BeforeValidator(_listed)] = Field(default_factory=lambda: [VALUES])
    stream_subgraphs: bool = False
    stream_resumable: bool = True
    checkpoint: Checkpoint | None = None
    checkpoint_id: str = ""
    multitask_strategy: Literal["reject", "enqueue", "interrupt", "rollback"] | None = None
    if_not_exists: Literal["create", "reject"] = "reject"
    on_disconnect: Literal["cancel", "continue"] = "continue"
    on_completion: Literal["keep", "delete", "complete"] = "keep"
    durability: Literal["sync", "async", "exit"] = "sync"
    checkpoint_during: bool = True
    strict_resume: bool = True
    langsmith_tracer: dict[str, Any] = Field(default_factory=dict)
    interrupt_before: Any = None
    interrupt_after: Any = None
    feedback_keys: Any = None
    webhook: Any = None
    after_seconds: float = 0

    def check(self) -> None:
        """Raises Invalid for what the platform does not do."""
        refused = {
            "interrupt_before": "a graph pauses where its own nodes interrupt",
            "interrupt_after": "a graph pauses where its own nodes interrupt",
            "feedback_keys": "feedback is not collected here",
            "webhook": "the platform calls nobody; join the run, or stream it",
            "after_seconds": "runs begin when they are created",
        }
        for name, words in refused.items():
            if getattr(self, name):
                raise Invalid(f"{name} is not offered: {words}")
        if self.on_completion == "delete":
            raise Invalid("on_completion: delete is not offered; retention removes runs")
        if self.command and (self.command.update or (self.command.goto and not self.ends)):
            raise Invalid(
                f"command: `resume` is offered, and to go to {END_NODE!r}; change the state by POST /threads/…/state, "
                "with `as_node` to say whose edges lead on, and create a run without input"
            )
        if self.command and not self.resumes and not self.ends:
            raise Invalid("command: says nothing; answer by `resume`, or leave it out")
        check_modes(self.stream_mode)

    def answering(self, asked: Sequence[str]) -> RunBody:
        """Returns it as the answer to what a thread asks, given its ids, where the graph around it was resumed.

        Raises Invalid for an answer without ids: it stays in that graph.
        """
        if not asked or self.resumes or not self.config.configurable.get(_RESUMING):
            return self
        answers = self.config.configurable.get(_RESUME_MAP)
        found = {key: answers[key] for key in asked if key in answers} if isinstance(answers, dict) else {}
        if not found:
            ids = ", ".join(asked)
            raise Invalid(
                f"input: what the thread asks is open; resume the graph that this is a node of by its id ({ids}): "
                "Command(resume={id: answer})"
            )
        return self.model_copy(update={"input": None, "command": Command(resume=found)})

    @property
    def resumes(self) -> bool:
        """Whether it answers what the thread's run asks."""
        return self.command is not None and RESUME in self.command.model_fields_set

    @property
    def rolls_back(self) -> bool:
        """Whether it takes the steps of what is active in the thread out of its state."""
        return self.multitask_strategy == "rollback"

    @property
    def ends(self) -> bool:
        """Whether the thread is to be left as it is, with nothing to run next."""
        return self.command is not None and not self.resumes and self.command.goto in (END_NODE, [END_NODE])

    def goes_on(self, assistant: Assistant) -> bool:
        """Whether it goes on from a state of the thread, and does not begin with an input."""
        return bool(self.from_checkpoint) or self.ends or (self.input is None and assistant.is_hosted)

    @property
    def from_checkpoint(self) -> str:
        """The checkpoint that it names; empty where it names none."""
        of_config = self.config.configurable.get("checkpoint_id") or ""
        return (self.checkpoint.checkpoint_id if self.checkpoint else "") or self.checkpoint_id or str(of_config)

    def check_fork(self, thread_id: str) -> None:
        """Raises Invalid for what a run that goes on from an earlier state does not take: it has that of its source."""
        asked = {
            "context": self.context,
            "config.configurable": self._configured(thread_id),
            "metadata": self.metadata,
            # A thread in which a run is active refuses it.
            "multitask_strategy": self.multitask_strategy not in (None, "reject"),
        }
        for name, value in asked.items():
            if value:
                raise Invalid(f"{name}: is not taken by a run that goes on from an earlier `checkpoint`; leave it out")

    def policy(self) -> runs_pb2.ActiveRunPolicy:
        """What to do with a run that is active in the thread."""
        return _POLICIES[self.multitask_strategy or "enqueue"]

    def labels(self) -> dict[str, str]:
        """Returns the metadata as the run's labels, which are texts. What a label may be, the gateway says."""
        for name, value in self.metadata.items():
            if not isinstance(value, (str, int, float, bool)):
                raise Invalid(f"metadata.{name[:60]}: is kept as a label of the run, which is a short text")
        return {name: value if isinstance(value, str) else str(value).lower() for name, value in self.metadata.items()}

    def run_input(self, assistant: Assistant, thread_id: str) -> runs_pb2.RunInput:
        """Returns the input for an agent. Raises Invalid."""
        if not assistant.is_hosted:
            return _own_input(assistant.name, self.input, self.context)
        given = {} if self.input is None else self.input
        if not isinstance(given, dict):
            raise Invalid("input: is to be an object with the fields of the graph's state")
        asked = hosted_pb2.GraphInput(agent=assistant.name, input=struct_of(assistant.known(given)))
        if self.context is not None:
            asked.context.CopyFrom(struct_of(self.context))
        if configured := self._configured(thread_id):
            asked.configurable.CopyFrom(struct_of(configured))
        return runs_pb2.RunInput(graph=asked)

    def _configured(self, thread_id: str) -> dict[str, Any]:
        configurable = self.config.configurable
        if configurable.get("thread_id") not in (None, "", thread_id):
            raise Invalid("config.configurable.thread_id: names another thread than the path")
        return {name: value for name, value in configurable.items() if name not in _OWN_KEYS}


def _own_input(agent: str, given: Any, context: Any) -> runs_pb2.RunInput:
    if context is not None:
        raise Invalid(f"context: {agent} takes none")
    if not isinstance(given, dict):
        raise Invalid(f"input: is to be an object with the fields of the input of {agent}")
    try:
        return json_format.ParseDict({agent: given}, runs_pb2.RunInput())
    except json_format.ParseError as error:
        raise Invalid(f"input: does not fit {agent}: {error}") from error
