"""Ways through a tree that tree-sitter has read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tree_sitter import Node, Tree


def walk(tree: Tree) -> Iterator[tuple[Node, int]]:
    """Yields every node with its depth, parents first; its own stack, since trees of hostile files are deep."""
    cursor = tree.walk()
    depth = 0
    while True:
        node = cursor.node
        if node is not None and node.is_named:
            yield node, depth
        if cursor.goto_first_child():
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
