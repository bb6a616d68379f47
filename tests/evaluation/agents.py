"""The cases of each agent: requests made of the words in cases/, and what must be true of the answers."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

import psycopg
from falkordb.asyncio.graph import AsyncGraph
from google.protobuf import timestamp_pb2
from redis.asyncio import Redis
from signalbox.v1 import data_chat_pb2, graph_editor_pb2, incident_investigation_pb2, outcome_pb2, runs_pb2, sast_pb2

from examples.harbour import repository as portal
from examples.harbour.incidents import repository as services_repository
from examples.harbour.incidents.graph import make_graph
from examples.harbour.incidents.tables import fill_tables
from examples.harbour.incidents.world import CASES, SERVICES, Cause, ServiceWorld
from services.findings.investigation.truth import match_truth, read_truth
from services.findings.sarif.documents import read_document
from services.findings.sarif.findings import read_results
from services.findings.sarif.paths import RepositoryPaths
from services.local.topology import graph_of
from tests.evaluation.asking import Case, Expected, read_cases

CALLER: Final = "27"
_OWNED: Final = ("devices", "device_current_data", "device_readings")
_NUMBER: Final = re.compile(r"(?<![\w.-])-?\d+(?:,\d{3})*(?:\.\d+)?")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
# What a root cause has to speak of, besides the service.
_SAYS: Final = {
    Cause.DEPLOY: r"deploy|version|release|timeout", Cause.POOL: r"pool|connection",
    Cause.CREDENTIAL: r"credential|expire|certificate|secret", Cause.DISK: r"disk|storage|space|full",
}  # fmt: skip
Rows = list[list[Any]]


@dataclass(frozen=True)
class Surroundings:
    """What a platform was started around: the world's database as its owner sees it, the graphs, a folder for code."""

    world_dsn: str
    graph_url: str
    folder: Path


# Questions to data


async def data_chat(around: Surroundings) -> list[Case]:
    """Questions, with the rows that answer them."""
    async with await psycopg.AsyncConnection.connect(around.world_dsn, autocommit=True) as connection:
        for table in _OWNED:  # temporary ones come first wherever a table is named
            await connection.execute(
                f"CREATE TEMP VIEW {table} AS SELECT * FROM public.{table} WHERE device_id IN"  # noqa: S608 - constants
                f" (SELECT device_id FROM user_device_assignment WHERE user_id = {CALLER})".encode()
            )
        return [await _question(each, connection) for each in read_cases("data_chat")]


async def _question(case: dict[str, str], connection: psycopg.AsyncConnection[Any]) -> Case:
    truth: Rows = []
    if "sql" in case:
        truth = [list(row) for row in await (await connection.execute(case["sql"].encode())).fetchall()]
        if not truth:
            raise ValueError(f"no rows are the truth of: {case['ask']}")
    return Case(
        case["ask"], CALLER, runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=case["ask"])),
        said=lambda run: run.output.data_chat.answer,
        is_true=lambda run: holds(run.output.data_chat, truth),
        expected=Expected(case.get("expect", Expected.ANSWER)),
    )  # fmt: skip


def holds(output: data_chat_pb2.DataChatOutput, truth: Rows) -> bool:
    """Whether the rows of an answer hold those of the truth and no others, and its words a value that stands alone."""
    left = [[_plain(getattr(cell, cell.WhichOneof("value") or "text_value")) for cell in row.values]
            for row in output.rows.rows]  # fmt: skip
    for row in truth:
        wanted = [_plain(value) for value in row]
        match = next((other for other in left if all(value in other for value in wanted)), None)
        if match is None:
            return False
        left.remove(match)
    single = truth[0][0] if len(truth) == len(truth[0]) == 1 else None
    return not left and (not isinstance(single, int | Decimal) or _says(output.answer, Decimal(single)))


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return value
    try:
        return round(Decimal(str(value)), 2)
    except InvalidOperation:
        date = _DATE.match(str(value))
        return date[0] if date else str(value)


def _says(words: str, value: Decimal) -> bool:
    """Whether words have a number, be it rounded."""
    said = (Decimal(found.replace(",", "")) for found in _NUMBER.findall(words))
    return any(number == round(value, max(0, -int(number.as_tuple().exponent))) for number in said)


# Goals for a graph


async def graph_editor(around: Surroundings) -> list[Case]:
    """Goals, each by somebody whose graph nobody else changes."""
    document = read_cases("graph_editor")
    keys = [node["key"] for node in document["graph"]["nodes"]]
    cases = [_goal(case, f"evaluation-{number}", keys) for number, case in enumerate(document["cases"])]
    async with Redis.from_url(around.graph_url, decode_responses=True) as redis:
        for case in cases:
            await _begin_graph(redis, graph_of(case.subject), document["graph"])
    return cases


async def _begin_graph(redis: Redis, name: str, begins: dict[str, Any]) -> None:
    graph = AsyncGraph(redis, name)
    for label in dict.fromkeys(node["label"] for node in begins["nodes"]):
        await graph.query(f"CREATE INDEX FOR (n:{label}) ON (n.key)")
        for kind in ("MANDATORY", "UNIQUE"):
            constraint: Any = (name, kind, "NODE", label, "PROPERTIES", 1, "key")
            await redis.execute_command("GRAPH.CONSTRAINT", "CREATE", *constraint)  # type: ignore[no-untyped-call]
    for node in begins["nodes"]:
        properties = {key: value for key, value in node.items() if key != "label"}
        made = f"MERGE (n:{node['label']} {{key: $properties.key}}) SET n += $properties"
        await graph.query(made, {"properties": properties})
    for edge in begins["edges"]:
        await graph.query(f"MATCH (a {{key: $start}}), (b {{key: $end}}) CREATE (a)-[:{edge['type']}]->(b)", edge)


def _goal(case: dict[str, Any], subject: str, keys: Iterable[str]) -> Case:
    def is_true(run: runs_pb2.Run) -> bool:
        output = run.output.graph_editor
        if "changes" in case:
            done = sorted(_changes(output.change_set))
            return any(sorted(wanted.split("; ")) == done for wanted in case["changes"])
        named = {key for key in keys if _has(output.answer, key)}
        is_found = named == set(case["finds"]) if "finds" in case else True
        return is_found and all(_has(output.answer, said) for said in case.get("says", ())) and not _changed(output)

    return Case(
        case["goal"], subject, runs_pb2.RunInput(graph_editor=graph_editor_pb2.GraphEditorInput(goal=case["goal"])),
        said=lambda run: run.input_request.question or run.output.graph_editor.answer,
        is_true=is_true,
        expected=Expected(case.get("expect", Expected.ANSWER)),
    )  # fmt: skip


def _changed(output: graph_editor_pb2.GraphEditorOutput) -> bool:
    return bool(output.change_set.nodes or output.change_set.edges)


def _changes(changes: graph_editor_pb2.GraphChangeSet) -> Iterator[str]:
    """Yields what was changed as cases say it: `+Ticket T-1 status=open`, `*` what is different, `-` what is gone."""
    signs = {graph_editor_pb2.CHANGE_KIND_CREATED: "+", graph_editor_pb2.CHANGE_KIND_UPDATED: "*"}
    for node in changes.nodes:
        before, after = dict(node.before), dict(node.after)
        set_ = (f"{name}={value}" for name, value in sorted(after.items()) if before.get(name) != value)
        given = [each for each in set_ if not each.startswith("key=")]
        yield " ".join([f"{signs.get(node.kind, '-')}{node.node.label} {node.node.key}", *given])
    for edge in changes.edges:
        yield f"{signs.get(edge.kind, '-')}{edge.start.key} {edge.type} {edge.end.key}"


def _has(words: str, part: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(part)}(?![\w-])", words, re.IGNORECASE) is not None


# Incidents


async def incident_investigation(around: Surroundings) -> list[Case]:
    """Incidents in worlds that differ in their causes; the services of each are a caller's own graph."""
    cases: list[Case] = []
    async with await psycopg.AsyncConnection.connect(around.world_dsn) as connection:
        for number, (name, told) in enumerate(read_cases("incident_investigation").items()):
            world = _world(name, told)
            subject = str(1000 + number)
            await fill_tables(connection, world)
            await make_graph(around.graph_url, [graph_of(subject)], world)
            made = services_repository.make(around.folder / f"services-{name}", world)
            source = sast_pb2.CodeSource(repository=made.path, commit=made.commit)
            cases += [_incident(world, at, subject, source) for at in range(len(told))]
    return cases


def _world(name: str, told: Sequence[dict[str, str]]) -> ServiceWorld:
    """The harbour's services by other names, with other causes at the same times."""
    cases = tuple(
        replace(
            case, incident_id=f"{name}-{number}", cause=Cause[each["cause"].upper()],
            seen_at=each["seen_at"], behind=each["behind"], title=each["title"], text=each["text"],
        )
        for number, (case, each) in enumerate(zip(CASES, told, strict=True), 1)
    )  # fmt: skip
    return ServiceWorld({service: f"{service}-{name}" for service in SERVICES}, cases=cases)


def _incident(world: ServiceWorld, at: int, subject: str, source: sast_pb2.CodeSource) -> Case:
    case = world.cases[at]
    started_at = timestamp_pb2.Timestamp()
    started_at.FromDatetime(world.noticed(case))
    given = incident_investigation_pb2.IncidentInvestigationInput(
        incident_id=case.incident_id, title=case.title, text=case.text, source=source, started_at=started_at,
        service=world.names[case.seen_at], severity=incident_investigation_pb2.INCIDENT_SEVERITY_HIGH,
    )  # fmt: skip

    def is_true(run: runs_pb2.Run) -> bool:
        cause = run.output.incident_investigation.root_cause
        return world.names[case.behind] in cause and re.search(_SAYS[case.cause], cause, re.IGNORECASE) is not None

    return Case(
        f"{case.title} ({case.incident_id})", subject, runs_pb2.RunInput(incident_investigation=given),
        said=lambda run: run.output.incident_investigation.root_cause
        or run.output.incident_investigation.explanation,
        is_true=is_true,
        expected=Expected.DECLINED if case.cause is Cause.UNKNOWN else Expected.ANSWER,
    )  # fmt: skip


# Findings of scanners


async def sast_triage(around: Surroundings) -> list[Case]:
    """Findings with their truth, each looked at by one agent with tools."""
    return [
        _finding(
            each, runs_pb2.RunInput(sast_triage=sast_pb2.SastTriageInput(finding=each.finding, source=each.source)),
            lambda run: run.output.sast_triage.justification,
        )
        for each in await _judged(around.folder / "triage")
    ]  # fmt: skip


async def sast_investigation(around: Surroundings) -> list[Case]:
    """The same findings, each through research, analysis and evaluation."""
    return [
        _finding(
            each,
            runs_pb2.RunInput(
                sast_investigation=sast_pb2.SastInvestigationInput(finding=each.finding, source=each.source)
            ),
            lambda run: run.output.sast_investigation.justification,
        )
        for each in await _judged(around.folder / "investigation")
    ]


@dataclass(frozen=True)
class _Judged:
    """A finding, where its code is, and whether people who read that call it a weakness."""

    finding: sast_pb2.Finding
    source: sast_pb2.CodeSource
    is_real: bool


async def _judged(folder: Path) -> list[_Judged]:
    """Returns what Bandit says of the harbour's portal, and further findings, with their truth."""
    made = portal.create(folder / "portal")
    log = folder / "bandit.sarif"
    options = ["--quiet", "--configfile", f"{made.path}/pyproject.toml", "--exit-zero", "--recursive", made.path]
    bandit = [sys.executable, "-m", "bandit", *options, "--format", "sarif", "--output", str(log)]
    await asyncio.to_thread(subprocess.run, bandit, check=True, timeout=120)
    paths = RepositoryPaths(root=made.path)
    findings = [result.finding for result in read_results(read_document(log), paths)]
    truth = match_truth(read_truth(portal.TRUTH), findings).labels
    source = sast_pb2.CodeSource(repository=made.path, commit=made.commit)
    judged = [_Judged(finding, source, truth[finding.fingerprint]) for finding in findings]
    return [*judged, *_own_findings(folder / "findings")]


def _own_findings(folder: Path) -> Iterator[_Judged]:
    told = read_cases("findings")
    files = {f"case_{number}.py": case["code"].replace("  # here", "").encode() for number, case in enumerate(told)}
    made = portal.create(folder, files, "Code with findings")
    source = sast_pb2.CodeSource(repository=made.path, commit=made.commit)
    for file, case in zip(files, told, strict=True):
        lines = case["code"].splitlines()
        flagged = next(number for number, line in enumerate(lines, 1) if line.endswith("# here"))
        location = sast_pb2.CodeLocation(file=file, first_line=flagged, last_line=flagged)
        finding = sast_pb2.Finding(fingerprint=file, rule_id=case["rule"], cwe=case["cwe"], location=location)
        yield _Judged(finding, source, case["is_vulnerable"])


def _finding(judged: _Judged, given: runs_pb2.RunInput, said: Callable[[runs_pb2.Run], str]) -> Case:
    location = judged.finding.location
    true = outcome_pb2.OUTCOME_TRUE_POSITIVE if judged.is_real else outcome_pb2.OUTCOME_FALSE_POSITIVE
    return Case(
        f"{judged.finding.rule_id} {location.file}:{location.first_line}", CALLER, given,
        said=said,
        is_true=lambda run: run.outcome == true,
    )  # fmt: skip


AGENTS: Final = {
    each.__name__: each for each in (data_chat, graph_editor, incident_investigation, sast_triage, sast_investigation)
}
