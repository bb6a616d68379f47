"""Analysis: from the code that was read to a drafted verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage
from signalbox.v1 import sast_pb2

from services.kit.models.prompts import data_block, prompt
from services.runtime.agents.code_review.code_bank import Fragment, shown
from services.runtime.agents.code_review.draft import Drafted, ask_for_draft
from services.runtime.agents.code_review.finding import described
from services.runtime.calls.chat_model import ChatModel


async def analyze(
    model: ChatModel,
    finding: sast_pb2.Finding,
    bank: Sequence[Fragment],
    *,
    checklist: Mapping[str, Any] | None = None,
    feedback: Mapping[str, Any] | None = None,
    earlier_drafts: int,
    attempts: int,
    max_code_chars: int,
) -> Drafted:
    """Asks for a verdict on a finding, from the code in the bank. Raises what `ChatModel.ask` does."""
    material: dict[str, Any] = {"finding": described(finding), "code_bank": shown(bank, finding, max_code_chars)}
    # What came of them may be the same each time, and is not to be asked for in the same words.
    again = {"earlier_drafts": earlier_drafts} if earlier_drafts else {}
    messages = [
        SystemMessage(prompt(__package__, "analysis", {"checklist": checklist})),
        HumanMessage(data_block({**material, **({"feedback": feedback} if feedback else {}), **again})),
    ]
    return await ask_for_draft(model, "analysis", messages, attempts=attempts)
