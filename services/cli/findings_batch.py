"""Findings as a batch of the platform's, which goes on with it when the command has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jsonschema
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import runs_pb2, sast_pb2

from services.cli.batch_client import FAILED_ITEMS, OVER, UPLOADING, open_batches, share_note, when_interrupted
from services.cli.client import Connection
from services.cli.terminal import Terminal
from services.findings.investigation.batch_progress import view_on
from services.findings.investigation.items import investigation_input, item_of, item_outcome
from services.findings.investigation.outcomes import refused
from services.findings.sarif.outcome import Outcome
from services.kit.wire.input_schema import schema_of


@dataclass(frozen=True)
class BatchPolicy:
    """How a batch is run. max_runs: at once; 0: the platform's share. name: another one is another batch."""

    max_runs: int = 0
    rerun_failed: bool = False
    name: str = ""


async def investigate_batch(
    connection: Connection,
    findings: Sequence[sast_pb2.Finding],
    source: sast_pb2.CodeSource,
    policy: BatchPolicy,
    terminal: Terminal,
    *,
    settled: Mapping[str, Outcome],
    truth: Mapping[str, bool],
) -> dict[str, Outcome]:
    """Investigates findings as one batch; given again, it follows the batch of the same findings. Raises CliError.

    settled: outcomes that are known already, truth: what is known to be so, by fingerprint. A finding that the agent
    does not take costs itself, and is no part of the batch.
    """
    problem = _Problems("sast_investigation")
    asked = [(finding, investigation_input(finding, source)) for finding in findings]
    problems = {finding.fingerprint: problem.of(given) for finding, given in asked}
    outcomes = {name: refused(name, wrong) for name, wrong in problems.items() if wrong}
    taken = [finding for finding, _ in asked if not problems[finding.fingerprint]]
    items = [
        item_of(finding, given, truth=truth.get(finding.fingerprint), settled=settled.get(finding.fingerprint))
        for finding, given in asked
        if not problems[finding.fingerprint]
    ]
    if not items:
        return outcomes
    async with open_batches(connection) as batches:
        with when_interrupted(terminal, UPLOADING):
            name = policy.name or f"{source.commit[:12]} findings"
            batch = await batches.upload(items, name=name, max_runs=policy.max_runs)
        if policy.rerun_failed and batch.state in OVER and any(each.state in FAILED_ITEMS for each in batch.counts):
            await batches.retry(batch.batch_id)
        with view_on(terminal.err, len(items)) as view:
            view.say(f"batch {batch.batch_id}")
            if note := share_note(batch, policy.max_runs):
                view.say(note)
            try:
                async for told in batches.watch(batch.batch_id, with_runs=True):
                    if told.HasField("item_ended"):
                        finding = taken[told.item_ended.item.number - 1]
                        outcome = item_outcome(finding.fingerprint, told.item_ended.item)
                        outcomes[finding.fingerprint] = outcome
                        view.done(finding, outcome)
            except asyncio.CancelledError:
                view.say(
                    f"the batch goes on without you: `signalbox batches watch {batch.batch_id}` follows it, the same "
                    "command given again writes its results, "
                    f"`signalbox batches cancel {batch.batch_id}` stops it"
                )
                raise
    never = "the batch was cancelled before the finding was added to it; --batch NAME makes another"
    return {each.fingerprint: refused(each.fingerprint, never) for each in taken} | outcomes


class _Problems:
    """Says what is wrong with inputs by their agent's schema."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._validator = jsonschema.Draft202012Validator(schema_of(agent))

    def of(self, asked: runs_pb2.RunInput) -> str:
        """Returns what is wrong with one; empty where nothing is."""
        document = MessageToDict(getattr(asked, self._agent), preserving_proto_field_name=True)
        found = next(iter(self._validator.iter_errors(document)), None)
        return f"{'.'.join(map(str, found.absolute_path))}: {found.message[:300]}" if found else ""
