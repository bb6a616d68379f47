"""Tests of a module of tables: one for each rule, by a state that it holds for."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from signalbox_routing.table import Rule, as_returned

from services.runtime.hosted.adoption.table_source import NO_WAY, Imports

_FIELDS = {AIMessage: ("tool_calls",), HumanMessage: ("name",), ToolMessage: ("tool_call_id", "name")}


def state_source(value: Any, imports: Imports) -> str:
    """Returns a state that was made for a table as source."""
    match value:
        case dict():
            return f"{{{', '.join(f'{_plain(key)}: {state_source(each, imports)}' for key, each in value.items())}}}"
        case list():
            return f"[{', '.join(state_source(each, imports) for each in value)}]"
        case SimpleNamespace():
            imports.add("types", "SimpleNamespace")
            return f"SimpleNamespace({_arguments(vars(value), imports)})"
        case BaseMessage():
            kind = type(value)
            imports.add("langchain_core.messages", kind.__name__)
            given = {name: getattr(value, name) for name in _FIELDS[kind]}
            calls = given.get("tool_calls")
            if calls is not None:
                given["tool_calls"] = [{name: each[name] for name in ("name", "args", "id")} for each in calls]
            said = _arguments({name: each for name, each in given.items() if each not in (None, [])}, imports)
            return f"{kind.__name__}({', '.join(filter(None, (_plain(value.content), said)))})"
    return _plain(value)


def _arguments(values: Mapping[str, Any], imports: Imports) -> str:
    return ", ".join(f"{name}={state_source(each, imports)}" for name, each in values.items())


def _plain(value: Any) -> str:
    said = repr(value)
    return f'"{said[1:-1]}"' if isinstance(value, str) and '"' not in value and said.startswith("'") else said


def tests_source(module: str, states: Mapping[str, Mapping[str, tuple[Rule, str, Any]]]) -> str:
    """Returns the tests of a module's tables; `states` are by router and rule, with the rule and where it leads."""
    imports, tests = Imports(), list[str]()
    for router, rules in states.items():
        imports.add(module, router)
        for name, (rule, destination, state) in rules.items():
            said = state_source(state, imports)
            if rule.raises:
                imports.add("signalbox_routing", "NoWayError")
                raised = f"    with pytest.raises(NoWayError, match={_plain(NO_WAY)}):\n        {router}(state)\n"
                tests.append(_test(router, name, said, raised))
                continue
            where = as_returned(destination)
            to = _plain(where) if isinstance(where, str) else f"[{', '.join(map(_plain, where))}]"
            told = f'    assert ({router}.decide(state).rule, {router}(state)) == ("{name}", {to})\n'
            tests.append(_test(router, name, said, told))
    needs_pytest = any("pytest.raises" in each for each in tests)
    head = [f'"""What the rules of `{module}` lead to, one by one."""', "", "from __future__ import annotations", ""]
    head += ["import pytest"] if needs_pytest else []
    return "\n".join([*head, imports.block, ""]) + "".join(f"\n\n{each}" for each in tests)


def _test(router: str, rule: str, state: str, then: str) -> str:
    return f"def test_{router.removeprefix('route_')}_{rule}() -> None:\n    state = {state}\n{then}"
