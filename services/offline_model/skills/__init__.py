"""The skills by model name; a new skill is a module here and a line below."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from services.offline_model.conversation import Skill
from services.offline_model.skills.answer_data_question import answer_data_question, describe_result
from services.offline_model.skills.edit_graph import plan_operations, read_goal, word_findings
from services.offline_model.skills.investigate_incident import investigate_incident
from services.offline_model.skills.judge_verdict import judge_verdict
from services.offline_model.skills.review_finding import draft_verdict, research_finding, triage_finding
from services.offline_model.skills.screen_question import screen_question
from services.offline_model.vocabulary import Vocabulary


def make_skills(vocabulary: Vocabulary) -> Mapping[str, Skill]:
    """Returns the skills; those that read what people ask know the words of a world."""
    return {
        "signalbox-offline-guard": partial(screen_question, vocabulary=vocabulary),
        "signalbox-offline-agent": partial(answer_data_question, vocabulary=vocabulary),
        "signalbox-offline-format": partial(describe_result, vocabulary=vocabulary),
        "signalbox-offline-triage": triage_finding,
        "signalbox-offline-research": research_finding,
        "signalbox-offline-analysis": draft_verdict,
        "signalbox-offline-evaluator": judge_verdict,
        "signalbox-offline-parse": partial(read_goal, vocabulary=vocabulary),
        "signalbox-offline-plan": partial(plan_operations, vocabulary=vocabulary),
        "signalbox-offline-answer": word_findings,
        "signalbox-offline-incident": partial(investigate_incident, vocabulary=vocabulary),
    }
