"""Analysis: from the code that was read to a drafted verdict."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import HumanMessage, SystemMessage
from signalbox.v1 import sast_pb2

from services.runtime.agents.code_review.code_bank import Fragment, render
from services.runtime.agents.code_review.draft import Drafted, ask_for_draft
from services.runtime.agents.code_review.finding import describe
from services.runtime.agents.templates import template
from services.runtime.calls.chat_model import ChatModel


async def analyze(
    model: ChatModel,
    finding: sast_pb2.Finding,
    bank: Sequence[Fragment],
    *,
    checklist: str = "",
    feedback: str = "",
    attempts: int,
    max_code_chars: int,
) -> Drafted:
    """Asks for a verdict on a finding, from the code in the bank. Raises what `ChatModel.ask` does."""
    instructions = template(__package__, "analysis").substitute(checklist=checklist)
    material = "\n\n".join(filter(None, [describe(finding), render(bank, finding, max_code_chars), feedback]))
    messages = [SystemMessage(instructions), HumanMessage(material)]
    return await ask_for_draft(model, "analysis", messages, attempts=attempts)
