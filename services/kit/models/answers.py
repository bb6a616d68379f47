"""What makes something of every answer that a model may give: an answer that is not of the API's form, mended.

Models say things that the API does not foresee: content in parts, the template's tokens in names and at the end, a call
written as text, arguments that are JSON but no object, calls without an id or with one id for two, half of a surrogate
pair, numbers of four hundred digits. What is plain is mended; what is not is kept as text, so that the model is told.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from services.kit.models.mending import (
    ARGUMENTS,
    MOST_NESTED,
    KeyTwice,
    Mend,
    OddNumber,
    count,
    load_json,
    mended,
    objects_in,
)
from services.kit.models.reasoning import without_reasoning
from services.kit.models.written_calls import LONGEST_LITERAL, MARK, Schemas, calls_in, several, tool_name
from services.kit.text.exact_json import is_nested_deeper

# It is a part of the key by which executors know a call again.
LONGEST_CALL_ID = 128
_END: Final = rf"(?:{MARK}|</s>|<eos>|<pad>|<end_of_turn>|<\|?endoftext\|?>|\[/INST\]|\[EOS\])"
_LAST_MARKS = re.compile(rf"(?:\s*{_END})+\s*\Z", re.IGNORECASE)
# What begins a turn, with whose it is.
_BEGIN: Final = rf"(?:{MARK}|<s>|<bos>|<start_of_turn>|\[INST\])"
_FIRST_MARKS = re.compile(
    rf"\A(?:\s*{_BEGIN})+(?:\s*(?:assistant|model)(?=\s*(?:{MARK}|[\n:])):?(?:\s*{MARK})*)?\s*", re.IGNORECASE
)
# From there on another turn is made up: what begins one has a line of its own, as templates have it.
_ANOTHER_TURN = re.compile(
    rf"{_END}[^\S\n]*\n\s*{_BEGIN}\s*(?:user|human|system|tool|ipython)\s*(?:\n|{MARK}|\Z)", re.IGNORECASE
)
_WRAPPED = re.compile(
    r"\A\s*<(?P<tag>answer|final|final_answer|response|output|result|verdict)>(?P<said>.*)</(?P=tag)>\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
_FENCED = re.compile(r"\A```(?:text|plaintext|markdown|md)?\n(.*)\n```\Z", re.IGNORECASE | re.DOTALL)
_ANSWERS: Final = frozenset({"answer", "final_answer", "response", "text", "output", "result", "message", "content"})
# A key without quotes; texts are passed over, also one that never ends: from each quote within, it would be read again.
_BARE_KEY = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|([{,]\s*)([A-Za-z_]\w*)\s*:', re.DOTALL)
# Parts of a content that are calls, as other APIs have them.
_CALLING_PARTS: Final = ("tool_use", "tool_call", "function_call")


def schemas_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Returns the schemas of the arguments of offered tools, by name."""
    functions = [tool["function"] for tool in tools if "function" in tool]
    return {function["name"]: function.get("parameters") or {} for function in functions}


def mend(answer: dict[str, Any], offered: Schemas | None = None) -> None:
    """Mends an answer in place, and takes reasoning out of it; `offered` are the schemas of tools, by name.

    None of them, where a verdict is asked for: one that goes on behind its mark is none, and is asked for again. Raises
    ValueError and the like for an answer that is not of the API's form.
    """
    is_verdict, offered = offered is None, offered or {}
    choice = answer["choices"][0]
    _tidy(answer, ("model", "system_fingerprint"))
    _tidy(choice, ("finish_reason",))
    message = choice["message"]
    message["role"] = "assistant"  # an answer is nobody else's, whatever some endpoints call it
    message.pop("audio", None)
    given = message.get("content")
    said = well_formed(_text_of(message))
    calls = [each for call in (*_calls_in_parts(given), *_calls_of(message)) for each in _one_by_one(_in_form(call))]
    if not calls and offered and (written := calls_in(_without_last_marks(said), offered)):
        calls, said = written, ""
        count(Mend.CALL_AS_TEXT)
    said = without_reasoning(said)
    bare = _without_marks(said if is_verdict else _first_turn(said), said)
    message["content"] = bare if is_verdict or offered else _out_of_its_wrapping(bare)
    taken: set[str] = set()
    for call in calls:
        function = call["function"]
        function["name"] = tool_name(well_formed(function.get("name") or ""), offered)
        function["arguments"] = mended_arguments(function.get("arguments"), offered.get(function["name"]))
        if not _is_id(call.get("id")) or call["id"] in taken:
            call["id"] = f"call_{uuid4().hex}"
        taken.add(call["id"])
    if calls:
        message["tool_calls"] = calls
    else:
        message.pop("tool_calls", None)


def _tidy(part: dict[str, Any], names: Sequence[str]) -> None:
    """Leaves of what stands beside an answer texts alone, as they can be kept."""
    for name in names:
        said = part.get(name)
        part[name] = well_formed(said) if isinstance(said, str) else None


def _is_id(said: Any) -> bool:
    return isinstance(said, str) and 0 < len(said) <= LONGEST_CALL_ID and said == well_formed(said)


def _text_of(message: Mapping[str, Any]) -> str:
    """Returns what is said: the text of a list of parts, without those that are thoughts; else a refusal's words."""
    content = message.get("content")
    if isinstance(content, str) and content.startswith('[{"type"'):
        with suppress(ValueError, RecursionError):
            content = load_json(content)
    if isinstance(content, list | Mapping):
        count(Mend.PARTS)
        content = _said_in(content)
    if content is None or content == "":
        refusal = message.get("refusal")
        return refusal if isinstance(refusal, str) else ""
    return content if isinstance(content, str) else json.dumps(content)


def _said_in(part: Any) -> str:
    """Returns the text of a part, or of a list of some; nothing of a thought, and of what is no text."""
    if isinstance(part, list):
        return "".join(map(_said_in, part))
    if not isinstance(part, Mapping):
        return part if isinstance(part, str) else ""
    if part.get("type", "text") not in ("text", "output_text", "refusal", "message"):
        return ""
    said = next((part[key] for key in ("text", "content", "refusal") if part.get(key)), "")
    return str(said["value"]) if isinstance(said, Mapping) and "value" in said else _said_in(said)


def _one_by_one(call: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the calls that a model hands in as those of a tool for several, which nobody offers."""
    function = call["function"]
    if not str(function.get("name")).startswith("multi_tool_use."):
        return [call]
    with suppress(ValueError, RecursionError, TypeError, AttributeError):
        given = function.get("arguments")
        inside = several(load_json(given) if isinstance(given, str) else given)
        names = [each.get("recipient_name") or each.get("name") for each in inside]
        # Where one has no name the model is told, and none of the others is done as if it were all.
        if all(isinstance(name, str) and name for name in names):
            return [_in_form({**each, "name": name}) for each, name in zip(inside, names, strict=True)]
    return [call]


def _calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    older = message.pop("function_call", None)
    if not calls and isinstance(older, Mapping) and older.get("name"):
        calls = [{"function": dict(older)}]
        count(Mend.CALL_FORM)
    if isinstance(calls, Mapping):
        calls = [calls]
        count(Mend.CALL_FORM)
    return [call for call in calls or () if call]


def _calls_in_parts(content: Any) -> list[dict[str, Any]]:
    """Returns the calls among parts, as Anthropic's API has them."""
    parts = content if isinstance(content, list) else []
    calls = [part for part in parts if isinstance(part, dict) and part.get("type") in _CALLING_PARTS]
    if calls:
        count(Mend.CALL_FORM)
    return calls


def _in_form(call: dict[str, Any]) -> dict[str, Any]:
    """Returns a call with what it calls below `function`."""
    function = call.get("function")
    if not isinstance(function, dict):
        own = call.get("custom")
        call = {**call, **own} if isinstance(own, dict) else call
        # One of another kind has no tool of ours, and the model is told so by what it calls it.
        name = next((each for each in (function, call.get("name"), call.get("type")) if isinstance(each, str)), "")
        arguments = next((call[key] for key in ARGUMENTS if key in call), None)
        function = {"name": name, "arguments": arguments}
        count(Mend.CALL_FORM)
    return {"id": call.get("id"), "type": "function", "function": function}


def _first_turn(text: str) -> str:
    found = _ANOTHER_TURN.search(text)
    return text if found is None else text[: found.start()].rstrip()


def _without_marks(text: str, given: str) -> str:
    """Returns a text without what templates begin and end turns with, and without tags around all of it."""
    said = _without_last_marks(_FIRST_MARKS.sub("", text))
    wrapped = _WRAPPED.match(said)
    # Two answers in tags of their own are not one.
    if wrapped and f"{wrapped['tag']}>".lower() not in wrapped["said"].lower():
        said = wrapped["said"].strip()
    if said != given:
        count(Mend.TEMPLATE_MARK)
    return said


def _out_of_its_wrapping(text: str) -> str:
    """Returns the words that are all of a fence, or of an object with one key that says it is the answer."""
    if (fenced := _FENCED.match(text)) and "```" not in fenced[1]:
        return _unwrapped(fenced[1].strip())
    if text.startswith("{"):
        with suppress(ValueError, RecursionError):
            [(key, said)] = load_json(text).items()
            if key.lower() in _ANSWERS and isinstance(said, str):
                return _unwrapped(said)
    return text


def _unwrapped(text: str) -> str:
    count(Mend.WRAPPING)
    return text


def _without_last_marks(text: str) -> str:
    found = _LAST_MARKS.search(text[-400:])
    return text if found is None else text[: len(text) - len(found[0])]


def mended_arguments(given: Any, schema: Mapping[str, Any] | None = None) -> str:
    """Returns a JSON object with well-formed strings, or text that is not JSON and so will be told to the model."""
    if given is None or given == "":
        required = (schema or {}).get("required")
        # LangChain makes an object of an empty text; that there is nothing is plain only where nothing is needed.
        return "no arguments were given" if required else "{}"
    text = given if isinstance(given, str) else _counted(json.dumps(given, ensure_ascii=False))
    try:
        value = _read_arguments(text)
    except OddNumber as error:
        return f"{error}: {well_formed(text)}"
    except KeyTwice as error:
        return f"{error}: {well_formed(text)}"
    except (ValueError, RecursionError):
        return well_formed(text) if text.strip() else "no arguments were given"
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        [value] = _counted(value)
    if not isinstance(value, dict):
        return f"not an object: {well_formed(text)}"
    if text.count("[") + text.count("{") > MOST_NESTED and is_nested_deeper(value, MOST_NESTED):
        return f"nested more than {MOST_NESTED} deep: {well_formed(text)}"
    made = mended(value, schema, keep_extra=True) if schema else value
    return well_formed(json.dumps(made, ensure_ascii=False))


def _read_arguments(text: str) -> Any:
    """Returns what arguments are: JSON, in a fence, twice over, with prose around it, or as other languages have it."""
    try:
        value = load_json(text)
    except (KeyTwice, OddNumber):
        raise
    except ValueError:
        bare = _without_last_marks(text.rstrip()).strip()
        if bare.startswith("```"):
            bare = bare.strip("`").removeprefix("json").strip()
        value = _counted(_written(bare))
    if isinstance(value, str) and value.strip().startswith("{"):
        return _counted(load_json(value))
    return value


def _written(text: str) -> Any:
    """Returns the object of a text that is not JSON alone. Raises ValueError."""
    for read in (load_json, _python, _with_quoted_keys, _within):
        try:
            return read(text)
        except (KeyTwice, OddNumber):
            raise
        except ValueError:
            continue
    raise ValueError("neither JSON nor Python")


def _with_quoted_keys(text: str) -> Any:
    if len(text) > LONGEST_LITERAL:
        raise ValueError("too long to be anything but JSON")
    return load_json(_BARE_KEY.sub(lambda found: found[0] if found[1] is None else f'{found[1]}"{found[2]}":', text))


def _within(text: str) -> dict[str, Any]:
    """Returns the one object of a text, though it stands there twice; what is within one that never ends is none."""
    found = list(objects_in(text))
    if not found or found[0][0] != text.find("{") or any(each != found[0][2] for _, _, each in found):
        raise ValueError("no object, or more than one")
    return found[0][2]


def _python(text: str) -> dict[str, Any]:
    if len(text) <= LONGEST_LITERAL and text.startswith("{") and text.endswith("}"):
        with suppress(SyntaxError, MemoryError, RecursionError, ValueError):
            value = ast.literal_eval(text)
            if isinstance(value, dict):
                return dict(load_json(json.dumps(value)))
    raise ValueError("neither JSON nor Python")


def _counted(value: Any) -> Any:
    count(Mend.ARGUMENTS)
    return value


def well_formed(text: str) -> str:
    """Returns the text with a question mark for each half of a surrogate pair, which UTF-8 can't carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
