"""What models say in an investigation, as tests script it: research that reads, and a draft of what it read."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tests.fixtures.scripted_model import ModelRequest, Reply
from tests.integration.code_agents.conftest import TAINTED, draft

READ = Reply.tool_call("read_file", {"path": "app/db.py"})
READ_CALLER = Reply.tool_call("read_file", {"path": "app/web.py"})
ENOUGH = Reply.text("The code bank has it all.")
DRAFTED = draft("TRUE_POSITIVE", TAINTED)


def numbered(reply: Callable[[int], Reply]) -> Callable[[ModelRequest], Reply]:
    """A model whose reply depends on how often it was asked before."""
    numbers = itertools.count()
    return lambda _: reply(next(numbers))
