"""The skills by model name; a new skill is a module here and a line below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from services.offline_model.conversation import Skill
from services.offline_model.skills.answer_data_question import answer_data_question
from services.offline_model.skills.describe_result import describe_result
from services.offline_model.skills.draft_verdict import draft_verdict
from services.offline_model.skills.judge_verdict import judge_verdict
from services.offline_model.skills.research_finding import research_finding
from services.offline_model.skills.screen_question import screen_question
from services.offline_model.skills.triage_finding import triage_finding

SKILLS: Final[Mapping[str, Skill]] = {
    "signalbox-offline-guard": screen_question,
    "signalbox-offline-agent": answer_data_question,
    "signalbox-offline-format": describe_result,
    "signalbox-offline-triage": triage_finding,
    "signalbox-offline-research": research_finding,
    "signalbox-offline-analysis": draft_verdict,
    "signalbox-offline-evaluator": judge_verdict,
}
