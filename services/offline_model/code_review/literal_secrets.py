"""Hard-coded secrets: whether a literal is one."""

from __future__ import annotations

import ast
import re

from services.offline_model.code_review.flagged import Flagged
from services.offline_model.code_review.misuse import IN_A_TEST
from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE, Opinion, undecided
from services.offline_model.code_review.shown import bare_name

SENTENCE_WORDS = 5
_SECRET = re.compile(r"pass|pwd|secret|token|credential|api_?key|private_?key", re.IGNORECASE)
# What a name ends in that is about a secret and not one itself.
_ABOUT = re.compile(
    r"(field|name|header|label|url|uri|path|file|prompt|message|text|column|param|parameter|type|title|error|help|hint|"
    r"pattern|regex|format|class|attr|attribute|env|var|variable|id|endpoint|selector|placeholder|policy|length)s?$",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"(change[-_ ]?me|dummy|placeholder|example|x{3,}|\*{3,}|none|null|todo|<[^<>]*>|\$?\{[^{}]*\}|%\(?\w*\)?s|"
    r"your[-_ ]?[a-z_ -]*|insert[-_ ][a-z_ -]*)",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Za-z]+([ _./:-]+[A-Za-z]+)*[:?!.]*")
_LOOKS_RANDOM = re.compile(r"(?=.*\d)(?=.*\S{8,})|(?=.*[^\w\s])(?=.*[A-Za-z])\S{8,}")


def hardcoded_secret(flagged: Flagged) -> Opinion:
    """Hard-coded secrets: whether the literal that a secret's name is given is one."""
    found = _named_literals(flagged)
    if not found:
        return undecided("I see no literal in the flagged lines that a secret is given or compared with.")
    name, text = max(found, key=lambda pair: len(pair[1]))
    if not text or _PLACEHOLDER.fullmatch(text):
        said = "The literal is empty or a placeholder, not a secret."
        return Opinion(FALSE_POSITIVE, 0.75, said, (flagged.claim(said),))
    if not any(char.isalnum() for char in text):
        said = "The literal is punctuation, not a secret."
        return Opinion(FALSE_POSITIVE, 0.75, said, (flagged.claim(said),))
    if _WORDS.fullmatch(text):
        if _ABOUT.search(name) or len(text.split()) >= SENTENCE_WORDS:
            said = "The literal reads like a name or a message, not like a secret."
            return Opinion(FALSE_POSITIVE, 0.65, said, (flagged.claim(said),))
        return undecided("The literal is made of words; whether it opens anything was not shown.")
    if not _LOOKS_RANDOM.search(text) or _ABOUT.search(name) or " " in text:
        return undecided("Whether the literal is a secret can't be told from how it looks.")
    if flagged.is_test:
        return undecided(f"The literal looks like a secret. {IN_A_TEST}")
    said = "The literal looks like a secret, and the program uses it as it stands."
    return Opinion(TRUE_POSITIVE, 0.7, said, (flagged.claim(said),))


def _named_literals(flagged: Flagged) -> list[tuple[str, str]]:
    """Returns the strings of the statement that something with a secret's name is given or compared with."""
    pairs: list[tuple[str, ast.AST | None]] = []
    for node in [flagged.statement, *flagged.nodes]:
        if isinstance(node, ast.Assign):
            pairs += [(_name(target), node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            pairs.append((_name(node.target), node.value))
        elif isinstance(node, ast.keyword):
            pairs.append((node.arg or "", node.value))
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs += [(_name(one), other) for one in sides for other in sides]
        elif isinstance(node, ast.Dict):
            pairs += [(str(key.value), value) for key, value in zip(node.keys, node.values, strict=True)
                      if isinstance(key, ast.Constant)]  # fmt: skip
        elif isinstance(node, ast.arguments):
            pairs += _defaults(node)
    named = ((name, value) for name, value in pairs if _SECRET.search(name))
    return [
        (name, value.value) for name, value in named if isinstance(value, ast.Constant) and isinstance(value.value, str)
    ]


def _defaults(node: ast.arguments) -> list[tuple[str, ast.AST | None]]:
    positional = [*node.posonlyargs, *node.args]
    pairs = [*zip(reversed(positional), reversed(node.defaults), strict=False)]
    return [(one.arg, value) for one, value in [*pairs, *zip(node.kwonlyargs, node.kw_defaults, strict=True)]]


def _name(node: ast.AST) -> str:
    """Returns the name of what is assigned to or compared, the key of a subscript included."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return bare_name(node)
