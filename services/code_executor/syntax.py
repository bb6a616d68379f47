"""Files parsed by tree-sitter, and ways through their trees."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count

from tree_sitter import Node, Parser, Tree

from services.code_executor.languages import grammar_of

# Of a thread's time. A file as large as is parsed takes a quarter of it, unless it was written to take long.
PARSE_S = 1.0
# A parser's steps: minified scripts take two a byte, what is written by hand one at the most.
_STEPS_PER_CALL = 100
_LEAST_STEPS = 4000
_STEPS_PER_BYTE = 3
_CHUNK_BYTES = 64 * 1024


def parse(source: bytes, language: str, timeout_s: float) -> Tree | None:
    """Parses a file; blocks, for so much of the thread's time at most: None when that or its steps are too many.

    Of what makes no sense, tree-sitter tries to make some: a few kilobytes of signs can take it minutes and gigabytes,
    in one step at their end. Up to there they take several times the steps of code that parses.
    """
    begun, worked_s = time.monotonic(), time.thread_time()
    calls = count(1)

    def is_too_much(offset: int, _has_error: bool) -> bool:
        steps = next(calls) * _STEPS_PER_CALL
        if steps > _LEAST_STEPS + _STEPS_PER_BYTE * offset:
            return True
        # A thread has no more time than passes; to ask for its own is dear on some machines.
        return time.monotonic() - begun > timeout_s and time.thread_time() - worked_s > timeout_s

    try:
        return Parser(grammar_of(language)).parse(
            lambda offset, _point: source[offset : offset + _CHUNK_BYTES], progress_callback=is_too_much
        )
    except ValueError:
        return None


def walk(tree: Tree | Node, first: int = 0, end: int = sys.maxsize) -> Iterator[tuple[Node, int]]:
    """Yields every node with its depth, parents first; its own stack, since trees of hostile files are deep.

    Of what lies outside of some bytes, it goes only into what holds an error, and no further than their end.
    """
    cursor = tree.walk()
    depth = 0
    while True:
        node = cursor.node
        is_wanted = False
        if node is not None:
            if node.start_byte >= end:
                return
            is_wanted = node.end_byte > first or node.has_error
            yield node, depth
        if is_wanted and cursor.goto_first_child():
            depth += 1
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            depth -= 1


def field_of(node: Node, names: Sequence[str]) -> Node | None:
    """Returns the first of some fields that a node has."""
    for name in names:
        if (child := node.child_by_field_name(name)) is not None:
            return child
    return None


def last_line(node: Node) -> int:
    """Returns the last line that a node takes, 1-based."""
    # A node that ends at the very start of a line, such as a macro with its line end, does not take that line.
    row, column = node.end_point
    return max(node.start_point.row + 1, row + 1 if column else row)
