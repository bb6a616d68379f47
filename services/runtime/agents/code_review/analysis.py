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
from services.runtime.agents.context_budget import once_tighter
from services.runtime.calls.chat_model import ChatModel
from services.runtime.errors import ModelRefused


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
    """Asks for a verdict on a finding, from the code in the bank. Raises DependencyAway; without any, ModelRefused."""
    # What came of them may be the same each time, and is not to be asked for in the same words.
    again = {"earlier_drafts": earlier_drafts} if earlier_drafts else {}
    told = {**({"feedback": feedback} if feedback else {}), **again}

    async def ask(characters: int) -> Drafted:
        material = {"finding": described(finding), "code_bank": shown(bank, finding, characters)}
        messages = [
            SystemMessage(prompt(__package__, "analysis", {"checklist": checklist})),
            HumanMessage(data_block({**material, **told})),
        ]
        return await ask_for_draft(model, "analysis", messages, attempts=attempts)

    try:
        return await once_tighter(ask, max_code_chars)
    except ModelRefused as refused:
        if not bank:
            raise
        # What was read is not to be lost with it: it goes to a person.
        return Drafted(None, refused.message)
