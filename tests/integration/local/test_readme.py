"""What the README shows to type is true of a platform that was just started."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

from tests.integration.local.running_up import start_up

README = Path(__file__).parents[3] / "README.md"
GOAL = "signalbox edit-graph "


async def test_the_goals_for_a_graph_need_nothing_that_is_not_there(tmp_path: Path) -> None:
    shown = README.read_text(encoding="utf-8").splitlines()
    goals = [shlex.split(line, comments=True)[1:] for line in shown if line.startswith(GOAL)]
    up = await start_up(tmp_path / "run")
    try:
        ended = [await up.run(*goal) for goal in goals]
    finally:
        assert await up.end(signal.SIGTERM) == 0
    assert [each.status for each in ended] == [0] * len(goals)
    assert "Created the node Ticket 'TICKET-7'" in ended[0].out
    assert "Nothing was written" in ended[-1].out
    assert "Change the node Ticket 'TICKET-7': status: closed." in ended[-1].out
