"""Cypher, read into a tree by `cypher.lark`, which names all that is allowed.

The parser is LALR(1): it takes time in proportion to the text, and holds no recursion that a text could exhaust.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from services.kit.tools.executor import ToolRefused

Node = Tree[Token]
MOST_TOKENS: Final = 1000
# Rules that nest where they stand within one another; chains of operators are one rule each and nest nothing.
NESTING: Final = frozenset(
    {
        "group", "list", "map", "function", "index", "slice", "case", "negation", "signed", "comprehension",
        "pattern_comprehension", "quantifier", "foreach", "contained", "text_test",
    }
)  # fmt: skip
# What models write that has another form here, by the word before the place where reading ended.
_HINTS: Final = {
    ";": "Give one statement.",
    "EXISTS": "Write the pattern itself as the condition: WHERE (a)-[:TYPE]->(:Label).",
    "CALL": "A query inside a query is not supported; go on with WITH and MATCH.",
    "COUNT": "Count what MATCH finds: count(n), or size([pattern | 1]).",
}


@cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("cypher.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", keep_all_tokens=True, propagate_positions=True, maybe_placeholders=False)


def parse(text: str, *, depth: int) -> Node:
    """Returns the tree of a query that nests at most `depth` levels. Raises ToolRefused."""
    if not text.strip():
        raise ToolRefused("empty", "The query is empty.")
    if "\\u" in text:
        # Some servers read such a sign before they read strings, which it may end.
        raise ToolRefused("odd_character", "Write signs as they are, or in parameters, not as \\u….")
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        at = error.pos_in_stream or 0
        rest, before = " ".join(text[at : at + 60].split())[:40], text[:at].split() or [""]
        where = f"from {rest!r} on" if rest else "at its end"
        told = f"The query can't be read {where}: it is wrong or not supported. {_HINTS.get(before[-1].upper(), '')}"
        raise ToolRefused("unparsable", told.strip()) from error
    _check_size(tree, depth)
    return tree


def _check_size(tree: Node, depth: int) -> None:
    # A stack of its own: what is too deep must not be walked by recursion.
    tokens, pending = 0, [(tree, 0)]
    while pending:
        node, level = pending.pop()
        level += node.data in NESTING
        if level > depth:
            raise ToolRefused("too_deep", f"The query nests deeper than {depth} levels.")
        for child in node.children:
            if isinstance(child, Tree):
                pending.append((child, level))
            else:
                tokens += 1
    if tokens > MOST_TOKENS:
        raise ToolRefused("too_long", f"The query has more than {MOST_TOKENS} words and signs.")


def trees(node: Node, *rules: str) -> list[Node]:
    """Returns a node's children that are of a rule, or all that are trees."""
    return [child for child in node.children if isinstance(child, Tree) and (not rules or child.data in rules)]


def tree(node: Node, *rules: str) -> Node | None:
    """Returns the first child of a rule."""
    return next(iter(trees(node, *rules)), None)


def has(node: Node, kind: str) -> bool:
    """Tells whether a token of a kind is among a node's own children."""
    return any(isinstance(child, Token) and child.type == kind for child in node.children)


def below(node: Node, *rules: str) -> Iterator[Node]:
    """Yields a node and what stands below it that is of a rule."""
    return (each for each in node.iter_subtrees() if each.data in rules)


def name_of(node: Node) -> str:
    """Returns what a `name` says, without its quotes."""
    return str(node.children[0]).strip("`")


def text_of(node: Node) -> str:
    """Returns all tokens of a node, one behind the other."""
    return "".join(str(token) for token in node.scan_values(lambda child: isinstance(child, Token)))
