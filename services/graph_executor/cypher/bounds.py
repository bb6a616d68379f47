"""What a query may ask the server to do inside one expression, where it heeds neither time-out nor bound of memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from lark import Token

from services.graph_executor.cypher.grammar import Node, below, has, name_of, trees
from services.graph_executor.policy import GraphPolicy
from services.kit.tools.executor import ToolRefused

# How many times as much + may make of a text or a list, over all clauses.
MOST_GROWTH: Final = 8
# What gives at most as much as it is given. Others can make a gigabyte of a kilobyte: replace, reduce and string.join
# among them. What counts the edges of a node counts those to nodes that the caller may not read.
FUNCTIONS: Final = frozenset(
    {
        "count", "sum", "avg", "min", "max", "collect", "stdev", "stdevp", "percentilecont", "percentiledisc", "size",
        "length", "keys", "labels", "haslabels", "type", "id", "properties", "coalesce", "head", "last", "tail",
        "nodes", "relationships", "startnode", "endnode", "tolower", "toupper", "trim", "ltrim", "rtrim", "left",
        "right", "substring", "split", "reverse", "tointeger", "tofloat", "tostring", "toboolean", "typeof", "abs",
        "ceil", "floor", "round", "sign", "sqrt", "exp", "log", "log10", "range", "timestamp", "date", "localtime",
        "localdatetime", "duration",
    }
)  # fmt: skip
_LOOPS: Final = ("comprehension", "quantifier", "pattern_comprehension")
# What compares in one step, whatever the values: a plain value, a property, a number.
_PLAIN: Final = frozenset({"literal", "parameter", "lookup", "signed", "negation", "is_null", "has_labels"})
_SCALAR_FUNCTIONS: Final = frozenset(
    {
        "count", "size", "length", "type", "id", "tolower", "toupper", "trim", "tointeger", "tofloat", "tostring",
        "toboolean", "abs", "ceil", "floor", "round", "sign", "timestamp", "date",
    }
)  # fmt: skip


def check_bounds(query: Node, policy: GraphPolicy) -> None:
    """Checks that no expression of a query grows or loops beyond the policy's limits. Raises ToolRefused."""
    for function in below(query, "function"):
        _check_function(function, policy.limits.list_length)
    for edges in below(query, "range"):
        _check_path(edges, policy.limits.path_length)
    for loop in below(query, *_LOOPS):
        _check_loop(loop)
    _check_growth(query)


def function_name(function: Node) -> str:
    """Returns the name of a function that is called, in lower case."""
    first = function.children[0]
    return str(first).lower() if isinstance(first, Token) else name_of(first).lower()


def _check_function(function: Node, longest: int) -> None:
    name = function_name(function)
    if not has(function, "SHORTEST") and name not in FUNCTIONS:
        raise ToolRefused("function_refused", f"The function {name[:40]!r} is not supported here.")
    if name == "range":
        numbers = [_whole(argument) for argument in trees(function)[1:]]
        known = [number for number in numbers if number is not None]
        step = abs(known[2]) if len(known) == 3 else 1
        if (
            len(known) != len(numbers)
            or len(known) not in (2, 3)
            or not step
            or abs(known[1] - known[0]) // step > longest
        ):
            raise ToolRefused("range_too_long", f"range() takes whole numbers, and makes at most {longest} values.")


def _whole(argument: Node) -> int | None:
    sign = 1
    if argument.data == "signed":
        sign = -1 if has(argument, "DASH") else 1
        argument = trees(argument)[0]
    text = str(argument.children[0]) if argument.data == "literal" else ""
    return sign * int(text) if text.isdecimal() and len(text) <= 18 else None


def _check_path(edges: Node, most: int) -> None:
    numbers = [child for child in edges.children if isinstance(child, Token) and child.type == "NUMBER"]
    last = edges.children[-1]
    ends = isinstance(last, Token) and last.type == "NUMBER" and last.isdecimal() and int(last) <= most
    if not ends or not all(number.isdecimal() for number in numbers):
        raise ToolRefused("path_too_long", f"A path needs an end of at most {most} edges, such as *1..{most}.")


def _check_loop(loop: Node) -> None:
    """Checks that each turn of a loop takes a bounded time, since a loop is not stopped."""
    if any(inner is not loop for inner in below(loop, *_LOOPS)):
        raise ToolRefused("nested_loops", "A list inside a list can't be gone through; use UNWIND.")
    for each in below(loop, "contained"):
        if trees(each)[-1].data not in ("list", "parameter"):
            raise ToolRefused(
                "nested_loops", "Inside a list that is gone through, IN takes a plain list or a parameter; use UNWIND."
            )
    for each in below(loop, "comparison"):
        sides = trees(each)
        if not all(_is_plain(left) or _is_plain(right) for left, right in pairwise(sides)):
            raise ToolRefused(
                "nested_loops",
                "Inside a list that is gone through, compare with a value or a property, not two names; use UNWIND.",
            )


def _is_plain(side: Node) -> bool:
    return side.data in _PLAIN or (side.data == "function" and function_name(side) in _SCALAR_FUNCTIONS)


def _check_growth(query: Node) -> None:
    growth = 1
    for segment in below(query, "single", "with", "return"):
        # What stands in a segment's own clauses; each WITH and RETURN begins another.
        plus = sum(has(each, "PLUS") and sum(str(child) == "+" for child in each.children) for each in _own(segment))
        growth *= 1 + plus
    if growth > MOST_GROWTH:
        raise ToolRefused("too_much_growth", "The query adds too often with +; add in your answer instead.")


def _own(segment: Node) -> list[Node]:
    inner = [each for each in below(segment, "with", "return") if each is not segment]
    held = {id(each) for one in inner for each in below(one, "add")}
    return [each for each in below(segment, "add") if id(each) not in held]
