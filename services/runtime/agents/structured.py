"""Answers that a model hands in as a record: the arguments of a tool, or JSON in its text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel, ConfigDict, ValidationError

from services.runtime.calls.chat_model import ChatModel
from services.runtime.calls.mended_answers import each_key_once
from services.runtime.errors import ModelFailed

_PROBLEMS_TOLD = 5


class UnreadableAnswer(Exception):
    """A model's answer that is not what it was asked for; the message says what is wrong with it."""


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
        try:
            return self.record.model_validate(_submitted(answer))
        except ValidationError as error:
            found = error.errors(include_url=False)[:_PROBLEMS_TOLD]
            told = "; ".join(f"{'.'.join(map(str, each['loc'])) or self.name}: {each['msg']}" for each in found)
            raise UnreadableAnswer(told) from error

    async def ask(self, model: ChatModel, purpose: str, messages: Sequence[BaseMessage]) -> SubmittedT:
        """Asks a model for the record. Raises UnreadableAnswer, ModelRefused, DependencyAway."""
        try:
            answer, _ = await model.ask(purpose, messages, [self.function], tool_choice=self.name)
        except ModelFailed as error:
            raise UnreadableAnswer(error.message) from error
        return self.read(answer)


def _submitted(answer: AIMessage) -> Any:
    """Returns what was handed in: a call's arguments, or JSON in the text. Raises UnreadableAnswer."""
    if len(answer.tool_calls) + len(answer.invalid_tool_calls) > 1:
        raise UnreadableAnswer("more than one call was made")
    if answer.invalid_tool_calls:
        raise UnreadableAnswer("the arguments are not a JSON object")
    if answer.tool_calls:
        return answer.tool_calls[0]["args"]
    start, end = answer.text.find("{"), answer.text.rfind("}")
    if start < 0 or end < start:
        raise UnreadableAnswer("nothing was submitted")
    try:
        return json.loads(answer.text[start : end + 1], object_pairs_hook=each_key_once)
    except ValueError as error:
        raise UnreadableAnswer(f"what was submitted is not JSON: {error}") from error


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
