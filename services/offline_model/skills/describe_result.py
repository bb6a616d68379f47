"""The skill behind `signalbox-offline-format`: question, SQL and result in, a short honest answer out."""

from __future__ import annotations

from services.offline_model.conversation import Answer, Conversation
from services.offline_model.data_questions.wording import word_answer
from services.offline_model.prompt_data import ResultToWord, as_prompt
from services.offline_model.vocabulary import Vocabulary


def describe_result(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Words a result."""
    asked = as_prompt(ResultToWord, conversation.data)
    if asked is None:
        return Answer("I can only word a result: the prompt needs question, sql_query and result.")
    return Answer(word_answer(asked.question, asked.sql_query, "\n".join(asked.result), vocabulary))
