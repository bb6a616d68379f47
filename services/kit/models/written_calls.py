"""Calls of tools that models write into their text, in whatever way their templates have it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from services.kit.models.mending import ARGUMENTS, TOOL_NAMES, Mend, count, objects_in
from services.kit.models.reasoning import without_tagged_reasoning

Schemas = Mapping[str, Mapping[str, Any]]
# A text that is calls, and no answer that happens to show some.
MOST_CALLS_IN_TEXT: Final = 16
LONGEST_CALLS_IN_TEXT: Final = 50_000
_MOST_TAGS: Final = 64
_LONGEST_NAME: Final = 300
# Of what is read as Python.
LONGEST_LITERAL: Final = 20_000
# What templates end turns, calls and messages with.
MARK: Final = r"<[|\uff5c][\w\u2581 :./-]{1,40}[|\uff5c]>"
_LABELS: Final = frozenset(("action", "name", "arguments", "args", "input", "parameters"))
# What stands in names beside the tool's: roles, channels, namespaces.
_BESIDE_NAMES: Final = frozenset(
    (
        "assistant",
        "assistantcommentary",
        "commentary",
        "analysis",
        "json",
        "code",
        "to",
        "call",
        "tool",
        "tools",
        "function",
        "functions",
        "functools",
        "api",
        "default_api",
    )
)
# A special token or markup that begins calls: models speak on the lines before it.
_CALLS_BEGIN = re.compile(
    r"(?P<token>\[TOOL_CALLS\]|<\|python_tag\|>|<\|START_ACTION\|>"
    r"|<[|\uff5c]tool[\u2581_]calls?(?:[\u2581_]section)?[\u2581_]begin[|\uff5c]>"
    # Without the tokens around it, of a server that takes them out.
    r"|assistantcommentary\s{1,8}to=functions\.)"
    r"|<(?:\w+:|[|\uff5c]\w+[|\uff5c])?(?:tool_?calls?|function_?calls?)>|<\|tool_call\|>|```tool_code\b"
    r"|(?:<\|start\|>\s{0,8}\w{1,20}\s{0,8})?<\|(?:channel|start)\|>\s{0,8}(?:\w{1,20}\s{0,8})?to=functions\."
    r"|<function=|<(?:[|\uff5c]\w+[|\uff5c]|\w{1,20}:)?invoke\s"
    r"|(?P<step>^[ *_]{0,4}Action:[^\w{]{0,20}+(?:\{|\w[\w.-]{0,127}+[^\w{]{0,20}+(?:\{|Action[ _]?Input:)))",
    re.IGNORECASE | re.MULTILINE,
)
# What stands behind the name of a tool that is called, in whatever form.
_CALLED_BY_NAME = re.compile(
    r"\(|[\"'`*]{0,4}\s{0,8}(?:[{\[<]|\((?=\s{0,8}(?:[\"'{\[)]|\w{1,64}\s{0,4}[=:]))|,(?=\s{0,8}[{\[\"'/])"
    r"|:\s?(?=[\d{\"\[\n])|\n\s{0,8}(?:args|arguments|parameters|action input)\b)",
    re.IGNORECASE,
)
# Of one message behind which, on the same line, calls begin.
_THOUGHT_ENDS: Final = ("<|end|>", "<|END_THINKING|>")
_SENTENCE_ENDS: Final = (".", "!", "?", ":", "\u2026", "\u3002")
# What a model makes up behind a step of its own, in paragraphs.
_OBSERVED = re.compile(r"\n[ *_]{0,4}Observation:")
_STEP = re.compile(r"\s*[*_]{0,3}(?:Observation|Thought|Action|Action Input|Final Answer):")
# What a text may hold beside its calls from the first on: what wraps and labels them, and no prose.
_WRAPPING = re.compile(
    rf"{MARK}|</?(?:[|\uff5c]\w{{1,40}}[|\uff5c]|\w{{1,40}}:)?"
    r"(?:tool_?calls?|function_?calls?|tools|tool_use|name|arguments|input)>"
    r"|```\w{0,12}|\[/?(?:TOOL_CALLS|ARGS)\]|\[CALL_ID\]\w{0,40}",
    re.IGNORECASE,
)
_TAG: Final = r"(?:[|\uff5c]\w+[|\uff5c]|\w{1,20}:)?"
# Of a call, and of its arguments.
_TAGGED: Final = (
    (
        # Some write the object of a call where the tag should end.
        re.compile(
            r'<function="?(?P<name>[\w.-]{1,128})"?(?:>|[,(]?\s?(?=\{))(?P<inside>.*?)(?P<end></function>|\Z)',
            re.DOTALL,
        ),
        re.compile(r"<parameter=([\w.-]{1,128})>\n?(.*?)\n?(?:</parameter>|\Z)", re.DOTALL),
    ),
    (
        re.compile(
            rf'<{_TAG}invoke name="(?P<name>[\w.-]{{1,128}})">(?P<inside>.*?)(?P<end></{_TAG}invoke>|\Z)', re.DOTALL
        ),
        re.compile(
            rf'<{_TAG}parameter name="([\w.-]{{1,128}})"[^<>]{{0,80}}>\n?(.*?)\n?(?:</{_TAG}parameter>|\Z)', re.DOTALL
        ),
    ),
    (
        re.compile(
            r"<tool_call>\s*(?P<name>[\w.-]{1,128})\s*(?P<inside><arg_key>.*?)(?P<end></tool_call>|\Z)", re.DOTALL
        ),
        re.compile(
            r"<arg_key>\s*([\w.-]{1,128})\s*</arg_key>\s*<arg_value>\n?((?:(?!<arg_value>).)*?)\n?</arg_value>",
            re.DOTALL,
        ),
    ),
)
_ARGUMENT_ENDS = re.compile(r"</[^<>/]{0,50}(?:parameter|arg_value)>\Z")
# Around a text without whitespace at its ends.
_FENCE = re.compile(r"\A```\w{0,12}|```\Z")
# Around calls that are written as Python.
_PYTHON_TAG = re.compile(
    r"\A<(?:tool_?calls?|function_?calls?|code)>|</(?:tool_?calls?|function_?calls?|code)>\Z", re.I
)
_PYTHON = re.compile(r"\[?\s*[A-Za-z_][\w.]{0,127}\(")
# What several calls stand in as one.
_CALLS: Final = ("tool_calls", "tool_uses", "calls")


def tool_name(name: str, offered: Schemas) -> str:
    """Returns the offered tool that a name means: without the template's tokens, `functions.` and its like.

    One that is spelt otherwise is meant; one that has another word with it may be another tool.
    """
    if name in offered or not offered:
        return name
    bare = re.sub(rf"(?<=\S)\s*{MARK}.*|\(.*", "", name[:_LONGEST_NAME], flags=re.DOTALL)
    parts = re.findall(r"[\w-]+", re.sub(MARK, " ", bare))
    words = [each for each in parts if each.lower() not in _BESIDE_NAMES and not each.isdecimal()]
    # Of a name with a namespace the last part is the tool.
    for meant in words[-1:] if len(words) == 1 or re.search(r"[./:]", bare) else ():
        known = [tool for tool in offered if _letters(tool) in (_letters(meant), _letters(meant).removesuffix("tool"))]
        if len(known) == 1:
            count(Mend.TOOL_NAME)
            return known[0]
    return name


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower().removeprefix("tool")


def calls_in(text: str, offered: Schemas) -> list[dict[str, Any]]:
    """Returns the calls of offered tools that a text is, in any way in which models write them; none of any other."""
    text = without_tagged_reasoning(text)
    if len(text) > LONGEST_CALLS_IN_TEXT:
        return []
    try:
        found = _calls_alone(text, offered) or _calls_alone(_behind_words(text), offered)
    except (ValueError, RecursionError):
        return []
    named = [(name, arguments) for name, arguments in found if tool_name(name, offered) in offered]
    if not named or len(named) < len(found) or len(named) > MOST_CALLS_IN_TEXT:
        return []
    return [{"function": {"name": name, "arguments": arguments}} for name, arguments in named]


def has_unread_call(text: str, offered: Collection[str]) -> bool:
    """Tells whether a text in which no call was read has what begins calls, or a tool named as one that is called."""
    if not offered:
        return False
    return _CALLS_BEGIN.search(text) is not None or any(
        _CALLED_BY_NAME.match(text, found.end())
        for found in re.finditer(rf"(?<!\w)(?:{'|'.join(map(re.escape, offered))})(?!\w)", text)
    )


def _behind_words(text: str) -> str:
    """Returns a text from where its calls begin, on a line of their own; nothing where they begin within one.

    Templates write their special token right behind a sentence.
    """
    begin = _CALLS_BEGIN.search(text)
    if not begin:
        return ""
    line = text[text.rfind("\n", 0, begin.start()) + 1 : begin.start()]
    thought = max(line.rfind(mark) for mark in _THOUGHT_ENDS)
    # What a colon and a space lead to is quoted.
    told = (begin["token"] and line.endswith(_SENTENCE_ENDS)) or line.rstrip(" ").endswith(_SENTENCE_ENDS[:3])
    if not told and _WRAPPING.sub("", line[max(thought, 0) :]).strip():
        return ""
    written = text[begin.start() :]
    observed = _OBSERVED.search(written) if begin["step"] else None
    if observed and all(map(_STEP.match, re.split(r"\n\s*\n", written[observed.start() :].strip()))):
        return written[: observed.start()]
    return written


def _calls_alone(text: str, offered: Schemas) -> list[tuple[str, Any]]:
    """Returns the calls that a text is, with nothing but what wraps them."""
    return (
        _python_calls_in(text, offered)
        or _tools_in(text, offered)
        or _functions_in(text)
        or list(_objects_called_in(text, offered))
    )


def _functions_in(text: str) -> list[tuple[str, Any]]:
    """Returns calls that a text is, as tags: `<function=name>`, `<invoke name="name">`, or a name and `<arg_key>`s.

    None where anything else stands there, also behind what one that never ends is called with.
    """
    found, spans = [], []
    for form, pattern in _TAGGED:
        for each in form.finditer(text):
            inside = each["inside"]
            arguments = dict(pattern.findall(inside))
            if not each["end"] and not _is_whole(inside, pattern):
                return []
            found.append((each["name"], arguments or inside.strip()))
            spans.append(each.span())
    return found if _is_wrapping(_outside(text, spans)) else []


def _is_whole(inside: str, pattern: re.Pattern[str]) -> bool:
    """Tells whether what a call is made with ends where the text does: all of its arguments, or one object."""
    said = [each.span() for each in pattern.finditer(inside)]
    if said:
        return bool(_ARGUMENT_ENDS.search(inside, 0, said[-1][1])) and _is_wrapping(_outside(inside, said))
    return _is_wrapping(_outside(inside, [(start, end) for start, end, _ in objects_in(inside)]))


def _outside(text: str, spans: list[tuple[int, int]]) -> str:
    """Returns what stands around parts of a text, which are in order or of several forms."""
    around, position = [], 0
    for start, end in sorted(spans):
        around.append(text[position:start])
        position = max(position, end)
    return "\n".join((*around, text[position:]))


def _is_wrapping(around: str) -> bool:
    # A quote that ends behind a call began in the words before it.
    return not re.search(r'[\w"]', _WRAPPING.sub("", around))


def _tools_in(text: str, offered: Schemas) -> list[tuple[str, Any]]:
    """Returns calls that a text is, written as tags of a tool's name: an object between them, or a tag an argument."""
    found, spans = [], []
    for call in _between(text, offered):
        name, inside = call[1], call[2]
        arguments = {each[1]: each[2] for each in _between(inside, (offered[name].get("properties") or {}).keys())}
        found.append((name, arguments or inside.strip()))
        spans.append(call.span())
    return found if _is_wrapping(_outside(text, spans)) else []


def _between(text: str, tags: Collection[str]) -> list[re.Match[str]]:
    """Returns tags with what stands between each and its end; none of more than calls have."""
    names = "|".join(map(re.escape, tags))
    if not names or not 0 < len(re.findall(rf"<(?:{names})>", text)) <= _MOST_TAGS:
        return []
    return list(re.finditer(rf"<({names})>\n?(.*?)\n?</\1>", text, re.DOTALL))


def _python_calls_in(text: str, offered: Schemas) -> list[tuple[str, Any]]:
    """Returns calls that a text is when read as Python: `[name(key="value")]`, `print(name(…))`, `name.call(…)`."""
    bare = _FENCE.sub("", _PYTHON_TAG.sub("", re.sub(MARK, "", text).strip()).strip()).strip()
    if len(bare) > LONGEST_LITERAL or not _PYTHON.match(bare):
        return []
    try:
        lines = ast.parse(bare).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    if len(lines) > MOST_CALLS_IN_TEXT:
        return []
    # A comment may say anything of the call.
    said = [ast.get_source_segment(bare, line) or "" for line in lines]
    if re.sub(r"[\s;]", "", "".join(said)) != re.sub(r"[\s;]", "", bare):
        return []
    values = [line.value if isinstance(line, ast.Expr) else None for line in lines]
    listed = [each for value in values for each in (value.elts if isinstance(value, ast.List) else [value])]
    calls = [_python_call(each, offered) for each in listed]
    return [] if None in calls else [call for call in calls if call is not None]


def _python_call(node: ast.expr | None, offered: Schemas) -> tuple[str, dict[str, Any]] | None:
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    if isinstance(function, ast.Name) and function.id == "print" and len(node.args) == 1:
        return _python_call(node.args[0], offered)
    if isinstance(function, ast.Attribute) and function.attr == "call":
        function = function.value
    if not isinstance(function, ast.Name | ast.Attribute):
        return None
    name = ast.unparse(function)
    # What stands without its name is plain where there is one argument that it can be.
    needed = list((offered.get(tool_name(name, offered)) or {}).get("required") or ())
    if node.args and (len(node.args) > 1 or len(needed) != 1 or node.keywords):
        return None
    try:
        arguments = {each.arg: ast.literal_eval(each.value) for each in node.keywords if each.arg}
        arguments |= {each: ast.literal_eval(value) for each, value in zip(needed, node.args, strict=False)}
    except (ValueError, TypeError, RecursionError):
        return None
    return name, arguments if len(arguments) == len(node.keywords) + len(node.args) else {}


def _objects_called_in(text: str, offered: Schemas) -> Iterator[tuple[str, Any]]:
    """Yields calls that a text is, written as objects: with their name inside, or the name of a tool before them.

    None where more than a tool's name and labels stands before one, or anything behind.
    """
    position, told = 0, []
    for start, end, each in objects_in(text):
        before, position = text[position:start], end
        # Calls are numbered: `functions.name:0`.
        words = re.findall(r"\w[\w.-]*(?::\d{1,9}\b)?", _WRAPPING.sub(" ", before))
        labels = _LABELS | _BESIDE_NAMES
        if not all(word.lower() in labels or tool_name(word, offered) in offered for word in words):
            return
        told.append((before, each))
    # Tags that name a tool end as they began.
    if not _is_wrapping(text[position:]):
        return
    for before, each in told:
        for inside in several(each):
            called = _called(inside, offered)
            # An object that is no call, and no tool is named before it: the text is an answer.
            yield called or (_announced(before, offered) or "", inside)


def several(given: Mapping[str, Any]) -> list[Any]:
    """Returns the calls that stand in an object as one list; else the object."""
    inside = next((given[key] for key in _CALLS if isinstance(given.get(key), list)), None)
    return inside if inside and all(isinstance(each, dict) for each in inside) else [given]


def _called(given: Mapping[str, Any], offered: Schemas) -> tuple[str, Any] | None:
    """Returns the tool that an object calls, and its arguments; None for an object that is no call."""
    if len(given) == 1:
        [(only, inside)] = given.items()
        if isinstance(inside, dict) and tool_name(only, offered) in offered:
            return only, inside
    key = next((key for key in TOOL_NAMES if key in given), "")
    name = given.get(key)
    if isinstance(name, dict):
        given, name = name, name.get("name")
    if not isinstance(name, str):
        return None
    arguments = next((given[each] for each in ARGUMENTS if each in given), None)
    if isinstance(arguments, dict | str):
        return name, arguments
    beside = {each: value for each, value in given.items() if each not in (key, "type")}
    schema = offered.get(tool_name(name, offered)) or {}
    is_call = beside and set(schema.get("required") or ()) <= set(beside) <= set(schema.get("properties") or ())
    return (name, beside) if is_call else None


def _announced(before: str, offered: Schemas) -> str | None:
    """Returns the tool that is named last before an object."""
    words = re.findall(r"[\w-]+", re.sub(MARK, " ", before[-300:]))
    return next((word for word in reversed(words) if word in offered), None)
