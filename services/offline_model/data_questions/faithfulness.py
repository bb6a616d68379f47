"""Whether an adapted statement answers the question that was asked, and not the one beside it.

The adaptation matches words; these checks see to what words alone do not say: what the question groups by, what it
takes the most of, what it counts and lists, and the small words (not, or, those, than) that make it another question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from sqlglot import exp

from services.offline_model.data_questions import statement
from services.offline_model.data_questions.schema import Schema
from services.offline_model.data_questions.statement import CannotEdit
from services.offline_model.data_questions.words import AGGREGATES, content_words, plain_words, stem

# Words that ask for nothing more.
NEUTRAL = frozenset(
    (
        *("overview", "summary", "quick", "quickly", "thank", "thanks", "hello", "hi", "hey", "here", "there", "total"),
        *("altogether", "exactly", "actually", "overall", "current"),
    )
)
_PAST = re.compile(r"\b(?:was|were|had|did|been|used to|ago)\b")
_HISTORY = re.compile(
    r"\b(?:was|were|had|did|been|ever|ago|since|last|past|previous|history|recorded|hour\w*|da(?:y|ys|ily)"
    r"|weeks?|months?|years?|(?:19|20)\d\d|how often|how much does each \w+ differ|exceeded)\b"
)
_SMALL_WORDS = {
    "a negation": re.compile(r"\b(?:not|no|none|never|neither|nor|without|except|excluding|besides|\w+n't|cannot)\b"),
    "a degree": re.compile(r"\btoo\b"),
    "an alternative": re.compile(r"\b(?:or|either|versus|vs)\b"),
    "something said before": re.compile(
        r"\b(?:those|these|them|they|their|it|its|that one|ones?|same|previous|before|again|others?|else)\b"
    ),
    "a comparison": re.compile(
        r"\b(?:than|more|less|fewer|higher|lower|greater|smaller|larger|bigger|hotter|warmer|colder|cooler|older|newer"
        r"|above|below|over|under|exceed\w*|between|equal\w*|beyond)\b|[<>=≤≥]"
    ),
    "another kind of question": re.compile(r"\b(?:when|where|who|whom|whose|why|how (?!many\b)\w+)"),
}
_RANKS = {"most": True, "least": False}
_RANKED = frozenset((*_RANKS, "latest", "earliest"))
_FIRST_FEW = re.compile(r"\b(?:top|bottom|first|last)\b")


def check_small_words(asked: str, shown: str, tree: exp.Expr, schema: Schema) -> None:
    """Checks that question and example have the same small words. Raises CannotEdit."""
    for what, pattern in _SMALL_WORDS.items():
        # A phrase with a meaning of its own, such as "how hot", is no small word.
        if (set(pattern.findall(asked)) ^ set(pattern.findall(shown))) - schema.vocabulary.phrases.keys():
            raise CannotEdit(f"question and example differ in {what}")
    if _PAST.search(asked) and not _PAST.search(shown) and not _reads_history(tree, schema):
        raise CannotEdit("the question is about the past")


def check_structure(question: str, rest: str, tree: exp.Expr, schema: Schema) -> None:
    """Checks that the statement groups, ranks, counts and lists as the question does. Raises CannotEdit."""
    words = content_words(rest, schema.vocabulary)
    if _reads_history(tree, schema) and not _asks_for_history(question, schema):
        raise CannotEdit("the question is about the present")
    _check_groups(words, tree, schema)
    _check_limit(words, question, tree)
    _check_ranks(words, tree, schema)
    _check_count(words, tree, schema)
    _check_subject(words, tree, schema)


def _reads_history(tree: exp.Expr, schema: Schema) -> bool:
    return not schema.vocabulary.history.isdisjoint(statement.tables_of(tree))


def _asks_for_history(question: str, schema: Schema) -> bool:
    rows = {row for table, row in schema.rows.items() if table in schema.vocabulary.history}
    named = rows.union(*(schema.vocabulary.synonyms.get(row, ()) for row in rows))
    return bool(_HISTORY.search(question.lower())) or not named.isdisjoint(plain_words(question))


def _check_groups(words: Sequence[str], tree: exp.Expr, schema: Schema) -> None:
    groups = [_words_of(key, tree, schema) for key in _group_keys(tree)]
    for index, word in enumerate(words):
        if word == "per":
            _check_group(words[index + 1 : index + 3], groups, set(schema.rows.values()))
    for group in groups:
        if not group & set(words):
            raise CannotEdit(f"the question asks for no group by {', '.join(sorted(group))}")


def _check_group(asked: Sequence[str], groups: Sequence[set[str]], rows: Set[str]) -> None:
    """`asked` is the word after `per` and the one after it, which may say whose kind is meant: `per kind of ship`."""
    key, owner = [*asked, "", ""][:2]
    found = next((group for group in groups if key in group), None)
    if found is None:
        raise CannotEdit(f"the example has no group for each {key}")
    if key in {"kind", "status", "name"} and owner in rows and owner not in found:
        raise CannotEdit(f"the example groups by the {key} of something else")


def _group_keys(tree: exp.Expr) -> list[exp.Expr]:
    """What the statement and its parts group by, and take one row of each of."""
    keys = [key for group in tree.find_all(exp.Group) for key in group.expressions]
    ones = [distinct.args.get("on") for distinct in tree.find_all(exp.Distinct)]
    return keys + [key for on in ones if on is not None for key in on.expressions]


def _words_of(key: exp.Expr, tree: exp.Expr, schema: Schema) -> set[str]:
    """Words for something shown or grouped by: its name in the result, its column, and what a row of its table is."""
    aliased = {alias.alias.lower(): alias.this for alias in tree.find_all(exp.Alias)}
    name = (key.alias or key.name).lower()
    found = {stem(part) for part in name.split("_")}
    tables = {table.alias_or_name.lower(): table.name.lower() for table in tree.find_all(exp.Table)}
    for column in aliased.get(name, key).find_all(exp.Column):
        found |= {stem(part) for part in column.name.lower().split("_")}
        table = tables.get(column.table.lower(), "") or (next(iter(tables.values())) if len(tables) == 1 else "")
        found |= {schema.rows[table]} if table in schema.rows else set()
    return found - {"id", "name", ""}


def _check_limit(words: Sequence[str], question: str, tree: exp.Expr) -> None:
    few = _FIRST_FEW.search(question.lower()) or not _RANKED.isdisjoint(words)
    if tree.args.get("limit") is not None and not few:
        raise CannotEdit("the question does not ask for the first few")


def _check_ranks(words: Sequence[str], tree: exp.Expr, schema: Schema) -> None:
    ranking: list[exp.Expr] = [node for shown in tree.expressions for node in shown.find_all(exp.Max, exp.Min)]
    if tree.args.get("limit") is not None and tree.args.get("order") is not None:
        ranking.append(tree.args["order"].expressions[0])
    for index, word in enumerate(words):
        if word not in _RANKED:
            continue
        if not ranking and not _group_keys(tree):
            raise CannotEdit("the example looks for no highest or lowest")
        of = next((following for following in words[index + 1 :] if following not in _RANKED), "")
        if word in _RANKS:
            _check_rank(_RANKS[word], of, ranking, tree, schema)


def _check_rank(is_most: bool, of: str, ranking: Sequence[exp.Expr], tree: exp.Expr, schema: Schema) -> None:
    column = schema.columns.get(of)
    if column is not None:
        fitting = [node for node in ranking if column in _columns(node, tree)]
        if not fitting:
            raise CannotEdit(f"the example ranks by something else than {of}")
        if not any(_is_most(node) == is_most for node in fitting):
            raise CannotEdit("the example ranks the other way round")
    elif of in schema.rows.values() and not any("count" in _columns(node, tree) for node in ranking):
        raise CannotEdit(f"the example does not rank by a count of {of}s")


def _columns(node: exp.Expr, tree: exp.Expr) -> set[str]:
    """Columns that a ranking goes by, through the names of the result; `count` for a count."""
    aliased = {alias.alias.lower(): alias.this for alias in tree.expressions if isinstance(alias, exp.Alias)}
    sources = [
        node,
        *(aliased[column.name.lower()] for column in node.find_all(exp.Column) if column.name.lower() in aliased),
    ]
    counted = {"count"} if any(source.find(exp.Count) for source in sources) else set()
    return counted | {column.name.lower() for source in sources for column in source.find_all(exp.Column)}


def _is_most(node: exp.Expr) -> bool:
    return isinstance(node, exp.Max) or (isinstance(node, exp.Ordered) and bool(node.args.get("desc")))


def _check_count(words: Sequence[str], tree: exp.Expr, schema: Schema) -> None:
    if "count" not in words:
        return
    counted = next((word for word in words[words.index("count") + 1 :] if word in schema.rows.values()), "")
    tables = statement.tables_of(tree)
    row = next((row for table, row in schema.rows.items() if table in tables), "")
    if counted and row and counted != row:
        raise CannotEdit(f"the example counts {row}s, not {counted}s")
    if not any(shown.find(exp.Count) for shown in tree.expressions):
        raise CannotEdit("the example counts nothing")


def _check_subject(words: Sequence[str], tree: exp.Expr, schema: Schema) -> None:
    """A list of devices shows devices, and a list of ships ships."""
    subject = next((word for word in words if word not in _RANKED and word not in AGGREGATES), "")
    if "count" in words or subject not in schema.rows.values():
        return
    if not any(subject in _words_of(item, tree, schema) for item in tree.expressions):
        raise CannotEdit(f"the example shows no {subject}s")
