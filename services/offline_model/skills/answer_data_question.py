"""The skill behind `signalbox-offline-agent`: answers data questions by adapting the nearest example it was shown.

It does what a tool-using model does, without inventing anything: ask for examples when those at hand are not near,
adapt the nearest one, run it, mend what can be mended after an error, word the result, and say so when it cannot.
"""

from __future__ import annotations

import re
from typing import Final

from services.kit.tools.names import (
    EXECUTE_DB_QUERY,
    GET_FEW_SHOT_EXAMPLES,
)
from services.offline_model.conversation import Answer, Call, CallMade, Conversation
from services.offline_model.data_questions import sql_edits, statement
from services.offline_model.data_questions.adapt import Adapted, adapt
from services.offline_model.data_questions.follow_ups import whole_question
from services.offline_model.data_questions.schema import Schema, read_schema
from services.offline_model.data_questions.statement import CannotEdit
from services.offline_model.data_questions.wording import word_answer
from services.offline_model.prompt_data import DataQuestion, Example, as_prompt
from services.offline_model.tool_results import QueryError, read_examples, read_notes, read_result
from services.offline_model.vocabulary import Vocabulary

# At least this near, an example at hand is used without asking for more.
NEAR_ENOUGH: Final = 0.9
# A refusal with one of these reasons is about what is asked, not about how the query is written.
_FINAL_REASONS = frozenset(("restricted_table", "write_refused", "lock_refused", "system_catalog", "access_denied"))
_MISSING_COLUMN = re.compile(
    r"(?:column \"?(?:\w+\.)?(?P<column>\w+)\"? does not exist|there is no column ['\"]?(?:\w+\.)?(?P<named>\w+))",
    re.IGNORECASE,
)
_HINT = re.compile(
    r"(?:perhaps you meant to reference the column|did you mean) \"?(?:\w+\.)?(?P<column>\w+)", re.IGNORECASE
)
_NOT_UNDERSTOOD = (
    "I can't answer this without a larger model: I take it for a follow-up, and can't tell which part of an earlier "
    "question it changes. Please ask the whole question."
)
_NO_EXAMPLE = (
    "I can't answer this without a larger model: no example that I was shown is near enough to the question "
    "to adapt its SQL safely."
)


def answer_data_question(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Takes the next step towards the answer; a follow-up is first made whole."""
    given = as_prompt(DataQuestion, conversation.data)
    if given is None:
        return Answer("I was shown no question.")
    whole = whole_question(
        given.question, [turn.question for turn in given.earlier_turns], _schema(conversation, given, vocabulary)
    )
    if whole is None:
        return Answer(_NOT_UNDERSTOOD)
    return _next_step(conversation, given.model_copy(update={"question": whole}), vocabulary)


def _next_step(conversation: Conversation, given: DataQuestion, vocabulary: Vocabulary) -> Answer:
    attempts = [call for call in conversation.calls if call.tool == EXECUTE_DB_QUERY and call.result is not None]
    if not attempts:
        return _first_query(conversation, given, vocabulary)
    last = attempts[-1]
    result = read_result(last.result or "")
    if not isinstance(result, QueryError):
        return Answer(word_answer(given.question, str(last.arguments.get("query", "")), last.result or "", vocabulary))
    return _mend(conversation, given, attempts, result, vocabulary)


def _first_query(conversation: Conversation, given: DataQuestion, vocabulary: Vocabulary) -> Answer:
    candidates = _candidates(conversation, given, vocabulary)
    may_retrieve = GET_FEW_SHOT_EXAMPLES in conversation.tools and not conversation.results_of(GET_FEW_SHOT_EXAMPLES)
    if may_retrieve and not (candidates and candidates[0].nearness >= NEAR_ENOUGH):
        return Answer(calls=(Call(GET_FEW_SHOT_EXAMPLES, {"question": given.question}),))
    if candidates and EXECUTE_DB_QUERY in conversation.tools:
        return Answer(calls=(Call(EXECUTE_DB_QUERY, {"query": candidates[0].sql}),))
    return Answer(_NO_EXAMPLE)


def _mend(
    conversation: Conversation,
    given: DataQuestion,
    attempts: list[CallMade],
    error: QueryError,
    vocabulary: Vocabulary,
) -> Answer:
    gave_up = f"I could not answer this: the database refused the query ({error.reason}: {error.message})"
    if EXECUTE_DB_QUERY not in conversation.tools or error.reason in _FINAL_REASONS:
        return Answer(gave_up)
    tried = {_normalised(str(attempt.arguments.get("query", ""))) for attempt in attempts}
    query = str(attempts[-1].arguments.get("query", ""))
    others = (found.sql for found in _candidates(conversation, given, vocabulary))
    for mended in (_without_missing_column(query, error), *others):
        if mended and _normalised(mended) not in tried:
            return Answer(calls=(Call(EXECUTE_DB_QUERY, {"query": mended}),))
    return Answer(gave_up + " I know no other way to ask for it.")


def _candidates(conversation: Conversation, given: DataQuestion, vocabulary: Vocabulary) -> list[Adapted]:
    """The queries that the shown examples give for the question, the nearest first, each once."""
    examples, schema = _examples(conversation, given), _schema(conversation, given, vocabulary)
    found: dict[str, Adapted] = {}
    for example in examples:
        try:
            adapted = adapt(example, given.question, schema)
        except CannotEdit:
            continue  # not an example for this question
        found.setdefault(adapted.sql, adapted)
    return sorted(found.values(), key=lambda adapted: -adapted.nearness)


def _examples(conversation: Conversation, given: DataQuestion) -> list[Example]:
    """The examples at hand, each question once."""
    retrieved = [example for text in conversation.results_of(GET_FEW_SHOT_EXAMPLES) for example in read_examples(text)]
    return list({example.question: example for example in (*given.examples, *retrieved)}.values())


def _schema(conversation: Conversation, given: DataQuestion, vocabulary: Vocabulary) -> Schema:
    notes = [note for text in conversation.results_of(GET_FEW_SHOT_EXAMPLES) for note in read_notes(text)]
    prose = "\n".join((*given.notes, *notes))
    return read_schema("\n".join(given.tables), prose, _examples(conversation, given), vocabulary)


def _without_missing_column(query: str, error: QueryError) -> str:
    """Takes the database's hint for a missing column, or stops showing it; a condition on it stays a failure."""
    missing = _MISSING_COLUMN.search(error.message)
    if missing is None:
        return ""
    column = (missing["column"] or missing["named"]).lower()
    try:
        tree = statement.parse(query)
        if hint := _HINT.search(error.message):
            sql_edits.rename_column(tree, column, hint["column"].lower())
        else:
            sql_edits.drop_projection(tree, column)
    except CannotEdit:
        return ""
    return statement.render(tree)


def _normalised(sql: str) -> str:
    return " ".join(sql.lower().split())
