"""Replays a case without model or executor: `python -m services.runtime.cases FILE`.

Exit status 0 when it decides the same, 1 when it does not or the recording is not enough, 2 when the file or what is
asked is wrong. With --continue the model that the settings name is asked from where it leaves the recorded way.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from signalbox.v1 import cases_pb2, runs_pb2

from services.kit.settings import load_settings
from services.kit.telemetry.logs import configure_logs
from services.kit.text.printing import printable
from services.runtime.agents.registry import open_hosted, prompt_problems
from services.runtime.cases.case_replay import JUDGES, CaseReplay
from services.runtime.cases.comparison import ChangedDecision, Replayed
from services.runtime.cases.errors import CaseError, CaseUnfit
from services.runtime.cases.file import read_case
from services.runtime.cases.hosted_replay import HostedCaseReplay
from services.runtime.cases.settings import CaseSettings
from services.runtime.hosted.langgraph_json import InvalidAgentsError
from services.runtime.routing.recorder import DecisionRecord


def main(arguments: Sequence[str]) -> int:
    """Replays the case that the arguments name, and says what came of it."""
    parser = argparse.ArgumentParser(prog="python -m services.runtime.cases", description="Replays a case.")
    parser.add_argument("file", type=Path, metavar="FILE", help="what `signalbox pin` wrote")
    parser.add_argument("--set", dest="limits", action="append", default=[], metavar="NAME=VALUE", help="set a limit")
    parser.add_argument("--continue", dest="goes_on", action="store_true", help="ask the model where the way is left")
    given = parser.parse_args(arguments)
    settings = load_settings(CaseSettings)
    # What fails in a replay is told below, and not as an operator's log.
    configure_logs("runtime-cases", "CRITICAL")
    try:
        limits = dict(_limit(each) for each in given.limits)
        if given.goes_on and not (settings.model_base_url or settings.models):
            raise CaseUnfit(
                "--continue asks a model: set SIGNALBOX_MODELS, or SIGNALBOX_MODEL_BASE_URL and SIGNALBOX_AGENT_MODEL"
            )
        case = read_case(given.file)
        if problems := prompt_problems(settings, JUDGES.values()):
            raise CaseUnfit("\n".join(problems))
        replayed, notes = asyncio.run(replay(case, limits, settings, goes_on=given.goes_on))
    except CaseError as error:
        sys.stderr.write(f"{printable(str(error))}\n")
        return 2
    sys.stdout.writelines(f"{line}\n" for line in [*notes, *in_words(case, replayed)])
    return 0 if replayed.is_same else 1


def _limit(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CaseUnfit(f"{text!r} sets no limit; write --set name=value")
    return name, value


async def replay(
    case: cases_pb2.Case, limits: Mapping[str, str], settings: CaseSettings, *, goes_on: bool
) -> tuple[Replayed, list[str]]:
    """Replays a case; returns what came of it, and what is another than the run's was. Raises CaseUnfit."""
    if case.run.input.HasField("graph"):
        return await _replay_hosted(case, limits, settings, goes_on=goes_on)
    async with AsyncExitStack() as stack:
        replaying = CaseReplay(case, limits, settings=settings, stack=stack, goes_on=goes_on)
        return await replaying.run(), list(_others(case.run, replaying))


async def _replay_hosted(
    case: cases_pb2.Case, limits: Mapping[str, str], settings: CaseSettings, *, goes_on: bool
) -> tuple[Replayed, list[str]]:
    if goes_on:
        raise CaseUnfit("a hosted graph's nodes call what they like: its case is replayed as far as it was recorded")
    async with AsyncExitStack() as stack:
        try:
            definitions = {each.name: each for each in await open_hosted(settings, stack)}
        except InvalidAgentsError as error:
            raise CaseUnfit(f"the graphs can't be loaded: {error}") from error
        definition = definitions.get(case.run.agent)
        if definition is None:
            raise CaseUnfit(f"there is no graph {case.run.agent!r} here; name its folder by --agents FOLDER")
        replaying = HostedCaseReplay(case, limits, definition)
        return await replaying.run(), list(_others(case.run, replaying))


def _others(run: runs_pb2.Run, replaying: CaseReplay | HostedCaseReplay) -> Iterator[str]:
    if replaying.graph_is_another:
        yield f"the graph is another than the run's, {printable(run.graph_version)}"
    yield from (f"{printable(each)}: models hear other words" for each in replaying.other_prompts)


def in_words(case: cases_pb2.Case, replayed: Replayed) -> Iterator[str]:
    """Yields what came of a replay, line by line."""
    if replayed.is_same:
        yield f"decides the same: {replayed.same} decisions{f', {replayed.status}' if replayed.status else ''}"
    if replayed.parting:
        yield from _parting(replayed.parting)
        for number, (node, made) in enumerate(replayed.after, start=replayed.parting.sequence + 1):
            yield f"  then {number}: {node}: {_way(made)}"
        if replayed.status:
            yield f"  and so it ended: {replayed.status}"
    if replayed.lacks:
        behind = replayed.same + len(replayed.after) + bool(replayed.parting)
        yield f"after decision {behind} of {len(case.decisions)} recorded ones: {printable(str(replayed.lacks))}"


def _parting(parting: ChangedDecision) -> Iterator[str]:
    made, recorded = parting.made, parting.recorded
    was = f"`{printable(recorded.rule)}` → {printable(recorded.destination)}" if recorded else "nothing more"
    yield f"parts at decision {parting.sequence}, after {parting.node}, by {made['router']}"
    yield f"  recorded: {was}"
    yield f"  now:      {_way(made)}"
    grounds = ", ".join(f"{name} = {value!r}" for name, value in sorted(made["grounds"].items()))
    yield f"  since:    {printable(grounds) or 'the rule asks for nothing'}"
    for name, before, now in _differing(recorded, made):
        yield f"  fact {name}: {before!r} then, {now!r} now"


def _way(made: DecisionRecord) -> str:
    return f"`{made['rule']}` → {made['destination']}"


def _differing(recorded: runs_pb2.Decision | None, made: DecisionRecord) -> Iterator[tuple[str, object, object]]:
    """Yields the facts that are others, where the same router decided."""
    if recorded is None or recorded.router != made["router"]:
        return
    before = dict(recorded.facts.items())
    for name, now in made["facts"].items():
        if name in before and before[name] != now:
            yield name, before[name], now


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
