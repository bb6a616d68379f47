"""Hard-coded secrets: whether a literal is one."""

from __future__ import annotations

import ast
import re

from services.offline_model.code_review.flagged import Flagged, merged
from services.offline_model.code_review.misuse import IN_A_TEST
from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE, Opinion, undecided
from services.offline_model.code_review.shown import bare_name

_SECRET = re.compile(r"pass|pwd|secret|token|credential|api_?key|private_?key", re.IGNORECASE)
# What a name ends in that is about a secret and not one itself.
_ABOUT = re.compile(
    r"(field|name|header|label|url|uri|path|file|prompt|message|text|column|param|parameter|type|title|error|help|hint|"
    r"pattern|regex|format|class|attr|attribute|env|var|variable|id|endpoint|selector|placeholder|policy|length)s?$",
    re.IGNORECASE,
)
# What can't be meant, and what is meant to be replaced; a default that nobody replaced opens doors.
_TEMPLATE = re.compile(r"<[a-z _.-]*>|\$?\{[a-z_.]*\d?\}|%(\([a-z_]*\))?s", re.IGNORECASE)
# What a grammar has for a token is no longer than that.
MAX_PUNCTUATION = 3
_PLACEHOLDER = re.compile(
    r"(change[-_ ]?me|dummy|placeholder|example|x{3,}|\*{3,}|todo|your[-_ ]?[a-z_ -]*|insert[-_ ][a-z_ -]*)",
    re.IGNORECASE,
)
_OPENS = re.compile(r"log_?in|sign_?in|auth|connect|decrypt|unlock", re.IGNORECASE)
_WORDS = re.compile(r"[A-Za-z]+([ _./:-]+[A-Za-z]+)*[:?!.]*")
_LOOKS_RANDOM = re.compile(r"(?=.*\d)(?=.*\S{8,})|(?=.*[^\w\s])(?=.*[A-Za-z])\S{8,}")


def hardcoded_secret(flagged: Flagged) -> Opinion:
    """Hard-coded secrets: whether the literal that a secret's name is given is one."""
    found = _named_literals(flagged)
    if not found:
        return undecided("I see no literal in the flagged lines that a secret is given or compared with.")
    others = [undecided("A secret is put together here of what I don't read.")] if _is_put_together(flagged) else []
    return merged([*(_judge(flagged, name, text) for name, text in found), *others])


def _judge(flagged: Flagged, name: str, text: str) -> Opinion:
    if not text or _TEMPLATE.fullmatch(text):
        said = "The literal is empty or a placeholder, not a secret."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said),))
    if _PLACEHOLDER.fullmatch(text):
        return undecided("The literal reads like a placeholder; whether anything takes it for a secret was not shown.")
    if not any(char.isalnum() for char in text):
        if len(text) > MAX_PUNCTUATION:
            return undecided("The literal is long for punctuation; whether it opens anything was not shown.")
        said = "The literal is punctuation, not a secret."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said),))
    if _WORDS.fullmatch(text):
        return _judge_words(flagged, name)
    if not _LOOKS_RANDOM.search(text) or _ABOUT.search(name) or " " in text:
        return undecided("Whether the literal is a secret can't be told from how it looks.")
    if _is_replaced(flagged, name):
        return undecided("The literal looks like a secret, and is replaced before anything uses it.")
    if flagged.is_test:
        return undecided(f"The literal looks like a secret. {IN_A_TEST}")
    said = "The literal looks like a secret, and the program uses it as it stands."
    return Opinion(TRUE_POSITIVE, said, (flagged.evidence(said),))


def _judge_words(flagged: Flagged, name: str) -> Opinion:
    if _is_used_as_secret(flagged, name):
        return undecided("The literal reads like a name, but something is given it as a secret.")
    if _ABOUT.search(name):
        said = "The literal reads like a name or a message, not like a secret."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said),))
    return undecided("The literal is made of words; whether it opens anything was not shown.")


def _named_literals(flagged: Flagged) -> list[tuple[str, str]]:
    """Returns the strings of the statement that something with a secret's name is given or compared with."""
    pairs: list[tuple[str, ast.AST | None]] = []
    for node in [*flagged.statements, *flagged.nodes]:
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


def _is_used_as_secret(flagged: Flagged, name: str) -> bool:
    """Tells whether something that is called a secret is given, made of, or compared with a name, in any file shown."""
    for file in flagged.shown.python:
        for node in file.nodes:
            if isinstance(node, ast.keyword):
                pairs = [(node.arg or "", node.value)]
            elif isinstance(node, ast.Compare):
                # What is compared with it need not be called a secret to open something.
                pairs = [("secret", one) for one in (node.left, *node.comparators)]
            elif isinstance(node, ast.Assign):
                pairs = [(_name(target), node.value) for target in node.targets]
            elif isinstance(node, ast.Call) and _OPENS.search(bare_name(node.func)):
                pairs = [("secret", part) for part in node.args]
            else:
                continue
            if any(_SECRET.search(to) and not _ABOUT.search(to) and _mentions(value, name) for to, value in pairs):
                return True
    return False


def _is_put_together(flagged: Flagged) -> bool:
    """Tells whether something called a secret is given literals that are not one text."""
    return any(
        isinstance(node, ast.keyword)
        and _SECRET.search(node.arg or "")
        and isinstance(node.value, ast.BinOp | ast.JoinedStr | ast.Constant)
        and not (isinstance(node.value, ast.Constant) and not isinstance(node.value.value, bytes))
        for node in flagged.nodes
    )


def _mentions(value: ast.AST, name: str) -> bool:
    """Tells whether a value is a name, or one of the alternatives it may be; a part of something else is another."""
    if isinstance(value, ast.IfExp):
        return _mentions(value.body, name) or _mentions(value.orelse, name)
    if isinstance(value, ast.BoolOp):
        return any(_mentions(part, name) for part in value.values)
    if isinstance(value, ast.Call):
        return any(_mentions(part, name) for part in [*value.args[1:], *(one.value for one in value.keywords)])
    return isinstance(value, ast.Name | ast.Attribute) and bare_name(value) == name


def _is_replaced(flagged: Flagged, name: str) -> bool:
    """Tells whether the statement after the flagged one gives the name another value, whatever the literal was."""
    last = flagged.statements[-1].end_lineno or flagged.last_line
    following = [node for node in flagged.file.nodes if isinstance(node, ast.stmt) and node.lineno > last]
    first = min(following, key=lambda node: (node.lineno, node.col_offset), default=None)
    return (
        isinstance(first, ast.Assign)
        and any(isinstance(one, ast.Name) and one.id == name for one in first.targets)
        and not any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(first.value))
    )


def _defaults(node: ast.arguments) -> list[tuple[str, ast.AST | None]]:
    positional = [*node.posonlyargs, *node.args]
    pairs = [*zip(reversed(positional), reversed(node.defaults), strict=False)]
    return [(one.arg, value) for one, value in [*pairs, *zip(node.kwonlyargs, node.kw_defaults, strict=True)]]


def _name(node: ast.AST) -> str:
    """Returns the name of what is assigned to or compared, the key of a subscript included."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return bare_name(node)
