"""The skills by model name; a new skill is a module here and a line below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from services.offline_model.conversation import Skill
from services.offline_model.skills.answer_data_question import answer_data_question
from services.offline_model.skills.describe_result import describe_result
from services.offline_model.skills.screen_question import screen_question

SKILLS: Final[Mapping[str, Skill]] = {
    "signalbox-offline-guard": screen_question,
    "signalbox-offline-agent": answer_data_question,
    "signalbox-offline-format": describe_result,
}
