"""The page of what nodes of a recorded run asked and heard: prompts and answers, arguments and results of tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from signalbox.v1 import evaluator_pb2, guard_pb2, recorded_answers_pb2, runs_pb2, tools_pb2
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.console.errors import Conflict
from services.console.explanation_page.result import (
    MOST_ITEMS,
    Block,
    Code,
    Items,
    Messages,
    Result,
    Words,
    cut,
    json_block,
    message_of,
    messages_block,
    messages_of,
    rows_block,
    tool_calls_of,
)
from services.console.filters import Filters
from services.console.gateway import Gateway
from services.console.message_words import words_of
from services.console.showing import page

Answer = recorded_answers_pb2.RecordedAnswer
_WORD = re.compile("(?<!^)[A-Z]")
MODEL, IN_JSON = "model", frozenset(("model", "person"))
NOT_RECORDED = "RUN_NOT_RECORDED"


class RecordedPages:
    """What nodes asked and heard."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> Sequence[Route]:
        """Returns where this page is."""
        return (Route("/runs/{run_id}/answers", self.answers),)

    async def answers(self, request: Request) -> Response:
        """Shows what a run's nodes asked and heard, in order; of a run that was not recorded how to have it."""
        filters = Filters.of(request.query_params, ("page",))
        run_id = request.path_params["run_id"]
        asked = runs_pb2.ListRecordedAnswersRequest(run_id=run_id, page_token=filters["page"])
        run = runs_pb2.Run(run_id=run_id)
        try:
            found = await self._gateway.call(self._gateway.runs.ListRecordedAnswers, asked)
        except Conflict as error:
            if error.reason != NOT_RECORDED:
                raise
            return page("not_recorded.html.j2", "runs", run=run)
        path = f"/runs/{run_id}/answers"
        return page(
            "answers.html.j2",
            "runs",
            run=run,
            answers=[_shown(each) for each in found.answers[:MOST_ITEMS]],
            left_out=max(0, len(found.answers) - MOST_ITEMS),
            more=filters.address(path, page=found.next_page_token) if found.next_page_token else "",
        )


def _shown(answer: Answer) -> dict[str, Any]:
    source, method = _heading(answer)
    return {
        "source": source,
        "method": method,
        "asked": Result(tuple(asked_of(answer))),
        "answered": Result(tuple(blocks_of(answer))),
    }


def _heading(answer: Answer) -> tuple[str, str]:
    """Returns who answered, and what was asked of it: a tool by its name, a method of the contract in words."""
    method, _, tool = answer.method.partition(" ")
    return answer.source.replace("_", " "), tool or _WORD.sub(r" \g<0>", method).lower().strip()


def asked_of(answer: Answer) -> Iterator[Block]:
    """Yields what was asked, and how much of it was not kept; nothing where nothing is known of it."""
    values = MessageToDict(answer.request)
    messages = values.get("messages") if answer.source == MODEL else None
    if isinstance(messages, list) and (told := messages_of([_named(each) for each in messages])):
        yield messages_block(messages, told)
        values = {name: each for name, each in values.items() if name != "messages"}
    if values:
        yield json_block("Beside them" if messages else "", values)
    if answer.request_bytes:
        kept = "cut" if answer.HasField("request") else "not kept"
        yield Words("", f"What was asked had {answer.request_bytes:,} bytes, and is {kept}.")


def blocks_of(answer: Answer) -> list[Block]:
    """Returns what was answered, as blocks; of what this release can't read how large it is."""
    if answer.HasField("failure"):
        failure = answer.failure
        return [Words("", cut("\n".join(filter(None, (f"failed: {failure.message or failure.kind}", failure.said)))))]
    try:
        if answer.source in IN_JSON:
            return _told(json.loads(answer.answer))
        response = _response_of(answer.method.partition(" ")[0])
        if response is not None:
            return _given(response.FromString(answer.answer))
    except (ValueError, DecodeError, RecursionError):
        pass  # of another release
    return [Words("", f"{len(answer.answer):,} bytes")]


def _told(value: Any) -> list[Block]:
    """Returns what a model or a person said."""
    choices = value.get("choices") if isinstance(value, Mapping) else None
    if not isinstance(choices, list) or not choices:
        return [Words("", cut(value))] if isinstance(value, str) else [json_block("", value)]
    found = [message_of(_named(choice.get("message"))) for choice in choices if isinstance(choice, Mapping)]
    return [Messages("", [each for each in found if each])]


def _named(message: Any) -> Any:
    """Returns a message of a completion with its tool calls as LangChain has them."""
    if not isinstance(message, Mapping):
        return message
    calls = [each.get("function") for each in tool_calls_of(message) if isinstance(each, Mapping)]
    asked = [{"name": each.get("name"), "args": _arguments(each)} for each in calls if isinstance(each, Mapping)]
    return {**message, "tool_calls": asked}


def _arguments(function: Mapping[str, Any]) -> Any:
    try:
        return json.loads(function.get("arguments") or "{}")
    except (ValueError, TypeError, RecursionError):
        return str(function.get("arguments"))


def _given(response: Message) -> list[Block]:
    """Returns what a service gave."""
    if isinstance(response, tools_pb2.CallToolResponse) and response.HasField("output"):
        output = response.output
        blocks: list[Block] = [Code("", cut(output.text))] if output.text else []
        return [*blocks, rows_block("Rows", output.table)] if output.HasField("table") else blocks
    return [Items("", words_of(response))]


@cache
def _response_of(method: str) -> type[Message] | None:
    for module in (tools_pb2, guard_pb2, evaluator_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            if found := service.methods_by_name.get(method):
                return GetMessageClass(found.output_type)
    return None
