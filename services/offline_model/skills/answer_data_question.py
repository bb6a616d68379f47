"""The skill behind `signalbox-offline-agent`: answers data questions by adapting the nearest example it was shown.

It does what a tool-using model does, without inventing anything: ask for examples when those at hand are not near,
adapt the nearest one, run it, mend what can be mended after an error, word the result, and say so when it cannot.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from services.kit.tools.names import (
    EXECUTE_DB_QUERY,
    GET_FEW_SHOT_EXAMPLES,
)
from services.offline_model.conversation import Answer, Call, CallMade, Conversation
from services.offline_model.data_questions import sql_edits, statement
from services.offline_model.data_questions.adapt import Adapted, adapt
from services.offline_model.data_questions.follow_ups import whole_question
from services.offline_model.data_questions.prompts import Example, QueryError, read_examples, read_result, section
from services.offline_model.data_questions.schema import Schema, read_schema
from services.offline_model.data_questions.statement import CannotEdit
from services.offline_model.data_questions.wording import word_answer
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
    whole = whole_question(conversation.question, conversation.system, _schema(conversation, vocabulary))
    if whole is None:
        return Answer(_NOT_UNDERSTOOD)
    if whole != conversation.question:
        conversation = replace(conversation, user=(*conversation.user[:-1], whole))
    return _next_step(conversation, vocabulary)


def _next_step(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    attempts = [call for call in conversation.calls if call.tool == EXECUTE_DB_QUERY and call.result is not None]
    if not attempts:
        return _first_query(conversation, vocabulary)
    last = attempts[-1]
    result = read_result(last.result or "")
    if not isinstance(result, QueryError):
        query = str(last.arguments.get("query", ""))
        return Answer(word_answer(conversation.question, query, last.result or "", vocabulary))
    return _mend(conversation, attempts, result, vocabulary)


def _first_query(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    candidates = _candidates(conversation, vocabulary)
    may_retrieve = GET_FEW_SHOT_EXAMPLES in conversation.tools and not conversation.results_of(GET_FEW_SHOT_EXAMPLES)
    if may_retrieve and not (candidates and candidates[0].nearness >= NEAR_ENOUGH):
        return Answer(calls=(Call(GET_FEW_SHOT_EXAMPLES, {"question": conversation.question}),))
    if candidates and EXECUTE_DB_QUERY in conversation.tools:
        return Answer(calls=(Call(EXECUTE_DB_QUERY, {"query": candidates[0].sql}),))
    return Answer(_NO_EXAMPLE)


def _mend(conversation: Conversation, attempts: list[CallMade], error: QueryError, vocabulary: Vocabulary) -> Answer:
    gave_up = f"I could not answer this: the database refused the query ({error.reason}: {error.message})"
    if EXECUTE_DB_QUERY not in conversation.tools or error.reason in _FINAL_REASONS:
        return Answer(gave_up)
    tried = {_normalised(str(attempt.arguments.get("query", ""))) for attempt in attempts}
    query = str(attempts[-1].arguments.get("query", ""))
    others = (found.sql for found in _candidates(conversation, vocabulary))
    for mended in (_without_missing_column(query, error), *others):
        if mended and _normalised(mended) not in tried:
            return Answer(calls=(Call(EXECUTE_DB_QUERY, {"query": mended}),))
    return Answer(gave_up + " I know no other way to ask for it.")


def _candidates(conversation: Conversation, vocabulary: Vocabulary) -> list[Adapted]:
    """The queries that the shown examples give for the question, the nearest first, each once."""
    examples, schema = _examples(conversation), _schema(conversation, vocabulary)
    found: dict[str, Adapted] = {}
    for example in examples:
        try:
            adapted = adapt(example, conversation.question, schema)
        except CannotEdit:
            continue  # not an example for this question
        found.setdefault(adapted.sql, adapted)
    return sorted(found.values(), key=lambda adapted: -adapted.nearness)


def _examples(conversation: Conversation) -> list[Example]:
    """The examples at hand, each question once."""
    # Earlier turns are no examples: their statements are what ran, with the caller's filter in them.
    shown = section(conversation.system, "example") or conversation.system.partition("\n## Earlier")[0]
    found: dict[str, Example] = {}
    for text in (shown, *conversation.results_of(GET_FEW_SHOT_EXAMPLES)):
        found.update((example.question, example) for example in read_examples(text))
    return list(found.values())


def _schema(conversation: Conversation, vocabulary: Vocabulary) -> Schema:
    notes = "\n".join([section(conversation.system, "note"), *conversation.results_of(GET_FEW_SHOT_EXAMPLES)])
    return read_schema(section(conversation.system, "table"), notes, _examples(conversation), vocabulary)


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
