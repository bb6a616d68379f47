"""Results held against schemas that mean no good: what takes too much is told, and is the end of it."""

from __future__ import annotations

import asyncio
from typing import Any

import psutil
import pytest

from services.mcp_executor.accepted import Definition
from services.mcp_executor.offer import LARGEST_SCHEMA_BYTES, problem_of
from services.mcp_executor.schemas import MOST_AT_ONCE, TOO_MUCH, ResultChecks
from services.mcp_executor.servers import AllowedTool

NODE = {"$ref": "#/$defs/node"}
ROW = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


def doubling(levels: int) -> dict[str, Any]:
    """Each of its schemas refers twice to the next."""
    twice = {f"x{n}": {"allOf": [{"$ref": f"#/$defs/x{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/x0", "$defs": {**twice, f"x{levels}": {"type": "integer"}}}


def nested(levels: int, innermost: Any = "x") -> Any:
    value = innermost
    for _ in range(levels):
        value = {"next": value}
    return value


def tree(**node: Any) -> dict[str, Any]:
    return {**NODE, "$defs": {"node": node}}


BOTH = {"type": "object", "properties": {"next": {"anyOf": [NODE, {"$ref": "#/$defs/other"}]}}}
DYNAMIC = {"$dynamicAnchor": "node", "type": "object", "additionalProperties": {"$dynamicRef": "#node"}}
NUMBERS = [{"number": number} for number in range(100_000)]
PARTS = {"allOf": [{"properties": {f"p{number}": True}} for number in range(300)], "unevaluatedProperties": False}
JSON = tree(
    anyOf=[{"type": "string"}, {"type": "array", "items": NODE}, {"type": "object", "additionalProperties": NODE}]
)

HELD: dict[str, tuple[dict[str, Any], Any, str]] = {
    "as it should be": ({"items": ROW}, [{"name": "a"}] * 20_000, ""),
    "one is not": ({"items": ROW}, [{"name": "a"}] * 20_000 + [{"name": 1}], "20000.name: 1 is not of type 'string'"),
    "a megabyte": ({"type": "string", "maxLength": 10}, "x" * 2**20, "is too long"),
    "a pattern without an end": ({"pattern": "^(a+)+$"}, "a" * 40 + "!", TOO_MUCH),
    "a field's name that has none": ({"patternProperties": {"^(a+)+$": {}}}, {"a" * 40 + "!": 1}, TOO_MUCH),
    "a pattern that is none": ({"pattern": "("}, "a", "its schema can't be used"),
    "doubling": (doubling(25), 1, TOO_MUCH),
    "each of two twice": ({**NODE, "$defs": {"node": BOTH, "other": BOTH}}, nested(60), TOO_MUCH),
    "itself": (tree(**NODE), 1, TOO_MUCH),
    "itself, deeper": (tree(properties={"next": NODE}), nested(100), ""),
    "any JSON": (JSON, {"a": ["b", {"c": ["d"]}]}, ""),
    "what is no JSON text": (JSON, {"a": ["b", {"c": [1]}]}, "is not valid under any"),
    "deeper than anybody reads": (tree(properties={"next": NODE}), nested(10_000), TOO_MUCH),
    "dynamic": (DYNAMIC, nested(5, {}), ""),
    "dynamic, and not so": (DYNAMIC, nested(5, 1), "next.next.next.next.next: 1 is not of type 'object'"),
    "all of them unlike": ({"uniqueItems": True}, NUMBERS, TOO_MUCH),
    "one of many": ({"items": {"enum": [f"v{number}" for number in range(5000)]}}, ["v4999"] * 50_000, TOO_MUCH),
    "not looked at yet": (PARTS, {f"p{number}": 1 for number in range(301)}, "Unevaluated properties are not allowed"),
    "errors without an end": (
        {"anyOf": [{"items": {"type": kind}} for kind in ("string", "null", "array", "object")]}, [0] * 1_000_000,
        TOO_MUCH,
    ),
    "fetched": ({"$ref": "http://169.254.169.254/schema"}, 1, "its schema can't be used"),
    "of a file": ({"$ref": "file:///etc/passwd"}, 1, "its schema can't be used"),
    "not there": ({"$ref": "#/$defs/none"}, 1, "its schema can't be used"),
    "of an earlier draft": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}, {"type": "number"}]},
        ["a", "b"], "1: 'b' is not of type 'number'",
    ),
    "a format": ({"format": "email"}, "nobody", ""),
    "of no draft": ({"$schema": []}, 1, "its schema can't be used"),
    "no schema": ({"properties": 1}, {}, "its schema can't be used"),
}  # fmt: skip


@pytest.fixture
def checks() -> ResultChecks:
    return ResultChecks(most_cpu_s=1)


@pytest.mark.parametrize("kind", HELD)
async def test_a_result_is_held_against_its_schema_and_not_for_ever(checks: ResultChecks, kind: str) -> None:
    schema, value, words = HELD[kind]
    told = await checks.problem_of(value, schema)
    assert (words in told, bool(told), len(told) <= 1000) == (True, bool(words), True), told
    # The next is held as if nothing had been.
    assert await checks.problem_of(1, {"type": "string"}) == "1 is not of type 'string'"


async def test_what_has_no_room_leaves_nothing_to_the_next(checks: ResultChecks) -> None:
    objects = [{"a": number} for number in range(700_000)]
    for value in (objects, 1) * 2:
        assert await checks.problem_of(value, {"type": "number"}) == (TOO_MUCH if value is objects else "")


async def test_few_processes_hold_whatever_there_is() -> None:
    checks = ResultChecks()
    assert await asyncio.gather(*(checks.problem_of(1, {}) for _ in range(4 * MOST_AT_ONCE))) == [""] * 4 * MOST_AT_ONCE
    holding = [each for each in psutil.Process().children() if "anyio.to_process" in each.cmdline()]
    assert len(holding) == MOST_AT_ONCE


def holding() -> set[int]:
    """Processes that hold results against schemas, or begin to."""
    return {each.pid for each in psutil.Process().children() if "anyio.to_process" in each.cmdline()}


async def test_a_process_that_begins_is_there_for_the_next_where_nobody_waits_for_it() -> None:
    async def given_up_early() -> set[int]:
        checks, before = ResultChecks(), holding()
        waiting = asyncio.create_task(checks.problem_of(1, {"type": "string"}))
        while not (begun := holding() - before):  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await checks.problem_of(1, {}) == ""
        return begun & holding()

    # In a loop of its own no process is there yet.
    assert len(await asyncio.to_thread(asyncio.run, given_up_early())) == 1


async def test_nothing_goes_on_for_whom_nobody_waits(checks: ResultChecks) -> None:
    assert await checks.problem_of(1, {}) == ""
    schema, value, _ = HELD["a pattern without an end"]
    before = {each.pid for each in psutil.Process().children()}
    waiting = asyncio.create_task(ResultChecks(most_cpu_s=3600).problem_of(value, schema))
    [holding] = [each for each in psutil.Process().children() if "anyio.to_process" in each.cmdline()]
    while holding.cpu_times().user < 1:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert holding.pid in before  # as it held the value before
    assert not holding.is_running()


OFFERED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no type that there is": ({"properties": {"a": {"type": "nothing"}}}, "is not valid", "is not valid"),
    "very large": (
        {"properties": {f"{number}": {"description": "x" * 1000} for number in range(100)}},
        f"larger than {LARGEST_SCHEMA_BYTES:,}", "",
    ),
    "too deep": (tree(**nested(5000, {})), "can't be used", "can't be used"),
    "of no draft": ({"$schema": []}, "can't be used", "can't be used"),
    "a number beyond all": ({"maximum": 10**400}, "can't be used", ""),
    "of an earlier draft": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"items": [{}]}}}, "is not", "",
    ),
    "itself for other values": (tree(properties={"next": NODE}), "", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", OFFERED)
def test_a_tool_is_offered_whose_schemas_are_some(kind: str) -> None:
    given, *words = OFFERED[kind]
    schema = {"type": "object", **given}
    for of, told in zip(("input_schema", "output_schema"), words, strict=True):
        schemas: dict[str, Any] = {"input_schema": {"type": "object"}, of: schema}
        found = problem_of(Definition(**schemas), AllowedTool(effect="reads"))
        assert (told in found, bool(found)) == (True, bool(told)), (of, found)
