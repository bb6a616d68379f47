"""The skill behind `signalbox-offline-format`: question, SQL and result in, a short honest answer out."""

from __future__ import annotations

from services.offline_model.conversation import Answer, Conversation
from services.offline_model.data_questions.prompts import read_format_request
from services.offline_model.data_questions.wording import word_answer
from services.offline_model.vocabulary import Vocabulary


def describe_result(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Words the result that the last user message holds."""
    request = read_format_request(conversation.question)
    if not (request.question or request.result):
        return Answer("I can only word a result: the prompt needs the sections Question, SQL and Result.")
    return Answer(word_answer(request.question, request.sql, request.result, vocabulary))
