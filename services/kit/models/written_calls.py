"""Calls of tools that models write into their text, in whatever way their templates have it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from services.kit.models.mending import Mend, count, objects_in
from services.kit.models.reasoning import without_reasoning

Schemas = Mapping[str, Mapping[str, Any]]
# A text that is calls, and no answer that happens to show some.
MOST_CALLS_IN_TEXT: Final = 16
LONGEST_CALLS_IN_TEXT: Final = 50_000
# Of what is read as Python.
LONGEST_LITERAL: Final = 20_000
# What templates end turns, calls and messages with.
MARK: Final = r"<[|\uff5c][\w\u2581 :./-]{1,40}[|\uff5c]>"
_NAME_ENDS = re.compile(r"<[|\uff5c]|\s*\(|[^\w.:/-]")
# How models announce that what follows is a call.
_CALLS_BEGIN = re.compile(
    r"<(?:\w+:)?tool_calls?>|<(?:[|\uff5c]\w+[|\uff5c])?function_calls?>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>"
    r"|<\|tool_call\|>|<\|START_ACTION\|>|(?:^|\n)Action: "
    r"|<[|\uff5c]tool[\u2581_]calls?(?:[\u2581_]section)?[\u2581_]begin[|\uff5c]>|\bto=functions\.|\A\s*(?:```\w{0,10}\s*)?[\[{]",
    re.IGNORECASE,
)
_TAG: Final = r"(?:[|\uff5c]\w+[|\uff5c]|antml:)?"
# Of a call, and of its arguments.
_TAGGED: Final = (
    (
        re.compile(r"<function=(?P<name>[\w.-]{1,128})>(?P<inside>.*?)(?:</function>|\Z)", re.DOTALL),
        re.compile(r"<parameter=([\w.-]{1,128})>\n?(.*?)\n?(?:</parameter>|\Z)", re.DOTALL),
    ),
    (
        re.compile(rf'<{_TAG}invoke name="(?P<name>[\w.-]{{1,128}})">(?P<inside>.*?)(?:</{_TAG}invoke>|\Z)', re.DOTALL),
        re.compile(
            rf'<{_TAG}parameter name="([\w.-]{{1,128}})"[^<>]{{0,80}}>\n?(.*?)\n?(?:</{_TAG}parameter>|\Z)', re.DOTALL
        ),
    ),
    (
        re.compile(r"<tool_call>\s*(?P<name>[\w.-]{1,128})\s*(?P<inside><arg_key>.*?)(?:</tool_call>|\Z)", re.DOTALL),
        re.compile(r"<arg_key>\s*([\w.-]{1,128})\s*</arg_key>\s*<arg_value>\n?(.*?)\n?</arg_value>", re.DOTALL),
    ),
)
_FENCE = re.compile(r"\A\s*```\w{0,12}\s*|\s*```\s*\Z")
_PYTHON = re.compile(r"\[?\s*[A-Za-z_][\w.]{0,127}\(")
_NAMES: Final = ("name", "tool", "tool_name", "function")
ARGUMENTS: Final = ("arguments", "parameters", "args", "input")


def tool_name(name: str, offered: Schemas) -> str:
    """Returns the offered tool that a name means: without the template's tokens, `functions.` and its like."""
    if name in offered or not offered:
        return name
    bare = _NAME_ENDS.split(name.strip(), maxsplit=1)[0]
    for meant in (bare, re.split(r"[.:/]", bare)[-1], re.sub(r":\d+\Z", "", bare).rpartition(".")[2]):
        known = [tool for tool in offered if tool.lower() == meant.lower()]
        if len(known) == 1:
            count(Mend.TOOL_NAME)
            return known[0]
    return name


def calls_in(text: str, offered: Schemas) -> list[dict[str, Any]]:
    """Returns the calls of offered tools that a text is, in any way in which models write them; none of any other."""
    text = without_reasoning(text) if "<think" in text else text
    if len(text) > LONGEST_CALLS_IN_TEXT:
        return []
    begin = _CALLS_BEGIN.search(text)
    written = text[begin.start() :] if begin else ""
    try:
        found = _python_calls_in(text) or _functions_in(written) or list(_objects_called_in(written, offered))
    except (ValueError, RecursionError):
        return []
    named = [(name, arguments) for name, arguments in found if tool_name(name, offered) in offered]
    if not named or len(named) < len(found) or len(named) > MOST_CALLS_IN_TEXT:
        return []
    return [{"function": {"name": name, "arguments": arguments}} for name, arguments in named]


def _functions_in(text: str) -> list[tuple[str, Any]]:
    """Returns calls written as tags: `<function=name>`, `<invoke name="name">`, or a name and `<arg_key>`s."""
    return [
        (each["name"], dict(pattern.findall(each["inside"])) or each["inside"].strip())
        for form, pattern in _TAGGED
        for each in form.finditer(text)
    ]


def _python_calls_in(text: str) -> list[tuple[str, Any]]:
    """Returns calls that a text is when read as Python: `[name(key="value")]`, `print(name(…))`, `name.call(…)`."""
    bare = _FENCE.sub("", re.sub(MARK, "", text)).strip()
    if len(bare) > LONGEST_LITERAL or not _PYTHON.match(bare):
        return []
    try:
        lines = ast.parse(bare).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    values = [line.value if isinstance(line, ast.Expr) else None for line in lines]
    listed = [each for value in values for each in (value.elts if isinstance(value, ast.List) else [value])]
    calls = [_python_call(each) for each in listed]
    return [] if None in calls else [call for call in calls if call is not None]


def _python_call(node: ast.expr | None) -> tuple[str, dict[str, Any]] | None:
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    if isinstance(function, ast.Name) and function.id == "print" and len(node.args) == 1:
        return _python_call(node.args[0])
    if isinstance(function, ast.Attribute) and function.attr == "call":
        function = function.value
    if node.args or not isinstance(function, ast.Name | ast.Attribute):
        return None
    try:
        arguments = {each.arg: ast.literal_eval(each.value) for each in node.keywords if each.arg}
    except (ValueError, TypeError, RecursionError):
        return None
    return ast.unparse(function), arguments if len(arguments) == len(node.keywords) else {}


def _objects_called_in(text: str, offered: Schemas) -> Iterator[tuple[str, Any]]:
    """Yields calls written as objects: with their name inside, or the name of a tool before them."""
    position = 0
    for start, end, each in objects_in(text):
        before, position = text[position:start], end
        name = next((each[key] for key in _NAMES if key in each), None)
        if isinstance(name, dict):
            each, name = name, name.get("name")
        arguments = next((each[key] for key in ARGUMENTS if key in each), None)
        if isinstance(name, str) and isinstance(arguments, dict | str):
            yield name, arguments
        else:
            # An object that is no call, and no tool is named before it: the text is an answer.
            yield _announced(before, offered) or "", each


def _announced(before: str, offered: Schemas) -> str | None:
    """Returns the tool that is named last before an object."""
    words = re.findall(r"[\w-]+", re.sub(MARK, " ", before[-300:]))
    return next((word for word in reversed(words) if word in offered), None)
