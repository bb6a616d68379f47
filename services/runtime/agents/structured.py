"""Answers that a model hands in as a record: the arguments of a tool, or JSON in its text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, ConfigDict

from services.kit.models.prompts import with_data
from services.kit.models.records import UnreadableAnswer, object_in, read_record
from services.runtime.calls.chat_model import ChatModel, summary_of
from services.runtime.calls.tool_client import MALFORMED
from services.runtime.errors import ModelFailed

_ARGUMENTS_TOLD = 200


class Submitted(BaseModel):
    """A record that a model hands in, or a part of one; what it adds is ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


SubmittedT = TypeVar("SubmittedT", bound=Submitted)


@dataclass(frozen=True)
class Submission(Generic[SubmittedT]):
    """The tool that a model hands a record in with."""

    name: str
    description: str
    record: type[SubmittedT]

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the record, without references and titles, which not every endpoint takes."""
        return _inlined(self.record.model_json_schema())

    @property
    def function(self) -> dict[str, Any]:
        """The tool in the form that chat completions take."""
        described = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": described}

    def read(self, answer: AIMessage) -> SubmittedT:
        """Returns the record that an answer hands in. Raises UnreadableAnswer."""
        return read_record(self.record, self._submitted(answer))

    async def ask(
        self, model: ChatModel, purpose: str, messages: Sequence[BaseMessage], *, attempts: int = 1
    ) -> SubmittedT:
        """Asks a model for the record, and again with what was wrong with the last answer.

        Raises UnreadableAnswer for the last, ModelRefused, DependencyAway.
        """
        told: list[BaseMessage] = []
        for left in reversed(range(attempts)):
            said = ""
            try:
                answer, _ = await model.ask(purpose, [*messages, *told], [self.function], tool_choice=self.name)
                said = summary_of(answer)
                return self.read(answer)
            except (ModelFailed, UnreadableAnswer) as error:
                problem = error.message if isinstance(error, ModelFailed) else str(error)
                if not left:
                    raise UnreadableAnswer(problem) from error
                told = unusable(said, problem, f"Call {self.name}.", turn=attempts - left)
        raise ValueError("an answer is asked for at least once")

    def _submitted(self, answer: AIMessage) -> Any:
        """Returns what was handed in: a call's arguments, or JSON in the text. Raises UnreadableAnswer."""
        if answer.invalid_tool_calls:
            said = str(answer.invalid_tool_calls[0]["args"])[:_ARGUMENTS_TOLD]
            raise UnreadableAnswer(f"the arguments are not a JSON object: {said}")
        handed_in = [call["args"] for call in answer.tool_calls]
        if malformed := next((args[MALFORMED] for args in handed_in if MALFORMED in args), None):
            raise UnreadableAnswer(f"the arguments are not a JSON object: {malformed}")
        if not handed_in:
            return object_in(self.record, answer.text)
        with suppress(UnreadableAnswer):
            written = object_in(self.record, answer.text)
            handed_in += [written] if set(self.record.model_fields) & set(written) else []
        if any(each != handed_in[0] for each in handed_in):
            raise UnreadableAnswer("there is more than one answer in it")
        return handed_in[0]


def unusable(said: str, problem: str, wanted: str, *, turn: int = 1) -> list[BaseMessage]:
    """Returns what follows an answer that could not be used: the answer, and what was wrong with it.

    From the second on it says how many there were: at temperature 0 the same prompt would bring the same answer.
    """
    again = {"unusable_answers": turn} if turn > 1 else {}
    words = with_data(f"Your last answer could not be used. {wanted}", {"problem": problem, **again})
    return [AIMessage(said or "(an answer that can't be read)"), HumanMessage(words)]


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema without references and titles, which not every endpoint takes."""
    definitions = schema.get("$defs", {})

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(each) for each in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return plain(definitions[part["$ref"].rpartition("/")[2]])
        others = [each for each in part.get("anyOf", ()) if each != {"type": "null"}]
        if len(others) == 1:
            return plain({**others[0], "description": part.get("description", "")})
        kept = {name: each for name, each in part.items() if name not in ("$defs", "title", "default")}
        # Under these the names are fields, which may be called as anything.
        return {
            name: {field: plain(each[field]) for field in each} if name == "properties" else plain(each)
            for name, each in kept.items()
        }

    return dict(plain(schema))
