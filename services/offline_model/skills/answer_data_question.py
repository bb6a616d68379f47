"""The skills behind `signalbox-offline-agent` and `-format`: answer data questions, and word what was found.

It does what a tool-using model does, without inventing anything: fill in an example that asks the same, ask for more
examples when none at hand does, else make a statement of what the tables are called, and say so when it can't.
"""

from __future__ import annotations

from typing import Final

from services.kit.tools.names import EXECUTE_DB_QUERY, GET_FEW_SHOT_EXAMPLES
from services.offline_model.conversation import Answer, Call, Conversation
from services.offline_model.data_questions.compose import CannotCompose, compose
from services.offline_model.data_questions.follow_ups import whole_question
from services.offline_model.data_questions.tables import read_schema
from services.offline_model.data_questions.templates import filled_in
from services.offline_model.data_questions.wording import word_answer
from services.offline_model.prompt_data import DataQuestion, ResultToWord, as_prompt
from services.offline_model.tool_results import QueryError, read_examples, read_result
from services.offline_model.vocabulary import Vocabulary

CANNOT: Final = "I can't answer this without a larger model: "


def answer_data_question(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Takes the next step towards the answer; a follow-up is first made whole."""
    given = as_prompt(DataQuestion, conversation.data)
    if given is None:
        return Answer("I was shown no question.")
    tried = [call for call in conversation.calls if call.tool == EXECUTE_DB_QUERY and call.result is not None]
    if tried:
        result = tried[-1].result or ""
        if isinstance(refused := read_result(result), QueryError):
            return Answer(f"I could not answer this: the database refused ({refused.reason}: {refused.message})")
        return Answer(word_answer(given.question, str(tried[-1].arguments.get("query", "")), result, vocabulary))
    shown = conversation.results_of(GET_FEW_SHOT_EXAMPLES)
    retrieved = [example for text in shown for example in read_examples(text)]
    schema = read_schema(given.tables, [*given.examples, *retrieved], vocabulary)
    asked = [vocabulary.in_english(each) for each in (given.question, *(turn.question for turn in given.earlier_turns))]
    question = whole_question(asked[0], asked[1:], schema)
    if question is None:
        return Answer(
            f"{CANNOT}I take it for a follow-up, and can't tell which part of an earlier question it changes."
        )
    question = schema.corrected(question)
    statement = next(filter(None, (filled_in(example, question, schema) for example in schema.examples)), "")
    if not statement and not shown and GET_FEW_SHOT_EXAMPLES in conversation.tools:
        return Answer(calls=(Call(GET_FEW_SHOT_EXAMPLES, {"question": question}),))
    try:
        statement = statement or compose(question, schema)
    except CannotCompose as error:
        return Answer(f"{CANNOT}no example asks the same, and I can't tell {error}.")
    if EXECUTE_DB_QUERY not in conversation.tools:
        return Answer(f"{CANNOT}there is no tool to query the database with.")
    return Answer(calls=(Call(EXECUTE_DB_QUERY, {"query": statement}),))


def describe_result(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Words a result: question, SQL and rows in, a short honest answer out."""
    asked = as_prompt(ResultToWord, conversation.data)
    if asked is None:
        return Answer("I can only word a result: the prompt needs question, sql_query and result.")
    return Answer(word_answer(asked.question, asked.sql_query, "\n".join(asked.result), vocabulary))
