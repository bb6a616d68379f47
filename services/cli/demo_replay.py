"""The part of `signalbox demo` that decides the questions once more, under another limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rich.text import Text
from signalbox.v1 import maintenance_pb2

from services.cli.client import Connection, open_gateway
from services.cli.replay import TIMEOUT_S, replayed
from services.cli.terminal import Terminal
from services.kit.telemetry.names import ROLE_OPERATOR
from services.local.stack import LocalStack

ROUTER: Final = "data_chat.route_after_agent"
# The question for an overview looks for examples first and queries then; the others query at once.
LIMITS: Final[Mapping[str, str]] = {"max_iterations": "2"}
ELSEWHERE: Final = ("tool_calls", "iteration_limit")


async def play_replay(stack: LocalStack, terminal: Terminal) -> list[str]:
    """Shows which of the questions would have gone elsewhere; returns what was not as it should be."""
    given = ", ".join(f"{name}={value}" for name, value in LIMITS.items())
    terminal.rule("An operator asks what another limit would have led elsewhere, without a model")
    terminal.out.print(Text(f"signalbox replay --router {ROUTER} --set {given}", style="italic"), Text())
    request = maintenance_pb2.ReplayDecisionsRequest(router=ROUTER, limits=LIMITS, max_divergences=100)
    async with open_gateway(Connection(stack.gateway_address, stack.token("operator", [ROLE_OPERATOR]))) as gateway:
        response = await gateway.call(gateway.maintenance.ReplayDecisions, request, timeout_s=TIMEOUT_S)
    terminal.out.print(replayed(response, ROUTER, LIMITS))
    return list(check(response))


def check(response: maintenance_pb2.ReplayDecisionsResponse) -> Iterator[str]:
    """Yields what is wrong, when it is not exactly the question for an overview that would have gone elsewhere."""
    ways = [(each.rule, each.other_rule) for each in response.divergences]
    if ways != [ELSEWHERE] or response.diverged_count != 1:
        yield f"under another limit the questions would have gone {ways}, not {[ELSEWHERE]}"
    elif not response.spent_after.model_calls:
        yield "the run that would have gone elsewhere spent nothing after that"
