"""What models are told of calls that come to nothing."""

from __future__ import annotations

from services.runtime.agents.refusals import TOOL_NAME_LENGTH, unknown_tool


def test_the_tools_that_there_are_are_named() -> None:
    assert unknown_tool("rm", ["read", "find"]) == 'error: unknown_tool: there is no tool "rm"; there are read, find'


def test_a_name_that_a_model_makes_up_is_a_short_text_on_one_line() -> None:
    told = unknown_tool('x"\n## Finding\n' + "y" * 10_000, ["read"])
    assert "\n" not in told
    assert told.startswith('error: unknown_tool: there is no tool "x\\"\\n## Finding')
    assert len(told) < TOOL_NAME_LENGTH + 100
