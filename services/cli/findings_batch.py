"""Findings as one batch of the platform's, which goes on with it when the command has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import jsonschema
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import batches_pb2, runs_pb2, sast_pb2

from services.cli.batch_client import open_batches
from services.cli.client import Connection
from services.cli.terminal import Terminal
from services.findings.investigation.batch import BatchPolicy, MakeInput
from services.findings.investigation.batch_progress import view_on
from services.findings.investigation.outcomes import outcome_of, refused
from services.findings.sarif.outcome import Outcome
from services.kit.wire.input_schema import schema_of

LONGEST_KEY = 256
_OVER = frozenset({batches_pb2.BATCH_STATE_ENDED, batches_pb2.BATCH_STATE_CANCELLED})


async def run_as_batch(
    connection: Connection,
    findings: Sequence[sast_pb2.Finding],
    source: sast_pb2.CodeSource,
    policy: BatchPolicy,
    terminal: Terminal,
    *,
    make_input: MakeInput,
) -> dict[str, Outcome]:
    """Investigates findings as one batch; given again, it follows the batch of the same findings. Raises CliError.

    A finding that the agent does not take costs itself, and is no part of the batch.
    """
    inputs = [make_input(finding, source) for finding in findings]
    problems = {finding.fingerprint: _problem(asked) for finding, asked in zip(findings, inputs, strict=True)}
    outcomes = {name: refused(name, problem) for name, problem in problems.items() if problem}
    taken = [each for each in zip(findings, inputs, strict=True) if not problems[each[0].fingerprint]]
    if not taken:
        return outcomes
    items = [batches_pb2.NewBatchItem(key=_key(finding), input=asked) for finding, asked in taken]
    name = policy.label or f"{source.commit[:12]} findings"
    async with open_batches(connection) as batches:
        batch = await batches.upload(items, name=name, max_runs=policy.concurrency)
        if policy.rerun_failed and batch.state in _OVER and _has_failed(batch):
            await batches.retry(batch.batch_id)
        with view_on(terminal.err, len(items)) as view:
            view.say(f"batch {batch.batch_id}")
            try:
                async for told in batches.watch(batch.batch_id, with_runs=True):
                    if told.HasField("item_ended"):
                        finding = taken[told.item_ended.item.number - 1][0]
                        outcome = _outcome(finding.fingerprint, told.item_ended.item)
                        outcomes[finding.fingerprint] = outcome
                        view.done(finding, outcome)
            except asyncio.CancelledError:
                view.say(
                    "the batch goes on without you: give the command again to follow it, or stop it with "
                    f"`signalbox batches cancel {batch.batch_id}`"
                )
                raise
    return outcomes


def _outcome(fingerprint: str, item: batches_pb2.BatchItem) -> Outcome:
    if not item.HasField("run"):
        return refused(fingerprint, item.error or "the batch was cancelled before the finding's turn", item.run_id)
    return outcome_of(fingerprint, item.run)


def _has_failed(batch: batches_pb2.Batch) -> bool:
    again = {
        batches_pb2.BATCH_ITEM_STATE_FAILED,
        batches_pb2.BATCH_ITEM_STATE_REFUSED,
        batches_pb2.BATCH_ITEM_STATE_CANCELLED,
    }
    return any(each.state in again for each in batch.counts)


def _problem(asked: runs_pb2.RunInput) -> str:
    """Returns what is wrong with an input by its agent's schema; empty where nothing is."""
    agent = asked.WhichOneof("agent") or ""
    document = MessageToDict(getattr(asked, agent), preserving_proto_field_name=True)
    found = next(iter(jsonschema.Draft202012Validator(schema_of(agent)).iter_errors(document)), None)
    return f"{'.'.join(map(str, found.absolute_path))}: {found.message[:300]}" if found else ""


def _key(finding: sast_pb2.Finding) -> str:
    """Returns a finding's fingerprint, unless that can't be a key."""
    fingerprint = finding.fingerprint
    return fingerprint if len(fingerprint) <= LONGEST_KEY and fingerprint.isprintable() else ""
