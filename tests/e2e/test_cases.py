"""Recorded runs of every agent, pinned, and decided again without model or executor."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from google.protobuf import json_format
from google.protobuf.json_format import ParseDict
from signalbox.v1 import cases_pb2, runs_pb2

from examples.harbour import repository as portal
from examples.harbour.incidents import repository as services_repository
from examples.harbour.incidents.world import CASES as INCIDENTS
from services.cli.client import Connection, open_gateway
from services.cli.errors import CliError
from services.cli.input_file import read_input
from services.cli.pin import case_of
from services.local.database import WORLD_GRAPH_POLICY
from services.runtime.cases.__main__ import in_words, replay
from services.runtime.cases.errors import CaseError
from services.runtime.cases.file import read_case
from services.runtime.cases.settings import CaseSettings
from tests.e2e.test_incidents import REPORTED
from tests.fixtures.client import question
from tests.fixtures.forked import program
from tests.fixtures.graph_edits import Editor
from tests.fixtures.scripted_model import Reply, ScriptedModel
from tests.fixtures.stack import Platform, World, platform

SUBJECT = "27"
STATUS = {runs_pb2.RUN_STATE_SUCCEEDED: "completed", runs_pb2.RUN_STATE_NEEDS_REVIEW: "needs_review"}
TOKEN = re.compile(rb"eyJ[\w-]{10,}\.eyJ")
AGENTS = ("data_chat", "sast_triage", "sast_investigation", "graph_editor", "incident_investigation")


@dataclass(frozen=True)
class Pinned:
    """A platform that records every run, and a case of each agent."""

    running: Platform
    cases: Mapping[str, cases_pb2.Case]
    folder: Path

    @property
    def connection(self) -> Connection:
        """The platform, for commands."""
        return Connection(self.running.stack.gateway_address, self.running.stack.token(SUBJECT))

    def file(self, case: cases_pb2.Case, name: str = "case.json") -> Path:
        """A case as a file."""
        path = self.folder / name
        path.write_text(json_format.MessageToJson(case, preserving_proto_field_name=True))
        return path


def inputs(folder: Path) -> dict[str, runs_pb2.RunInput]:
    """What the agents are asked that ask nobody back."""
    made = portal.create(folder / "service")
    services = services_repository.make(folder / "services")
    finding = json.loads(portal.FINDINGS.read_text())[0]
    place = {name: finding.pop(name) for name in ("file", "first_line", "last_line")}
    about = {
        "finding": {**finding, "location": place},
        "source": {"repository": made.path, "commit": made.commit},
    }
    incident = read_input("incident_investigation", REPORTED / f"{INCIDENTS[0].incident_id}.yaml")
    incident.incident_investigation.source.repository = services.path
    incident.incident_investigation.source.commit = services.commit
    return {
        "data_chat": question("Count devices with temperature > 10").input,
        "sast_triage": ParseDict({"sast_triage": about}, runs_pb2.RunInput()),
        "sast_investigation": ParseDict({"sast_investigation": about}, runs_pb2.RunInput()),
        "incident_investigation": incident,
    }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pinned(harbour: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pinned]:
    folder = tmp_path_factory.mktemp("cases")
    options: dict[str, Any] = {"graph_policy": WORLD_GRAPH_POLICY, "code_agents": True, "code_roots": (folder,)}
    env = {"runtime": {"SIGNALBOX_RECORD_RUNS": "true"}}
    async with platform(harbour, service_env=env, **options) as running:
        caller = running.caller(SUBJECT)
        asked = {name: runs_pb2.CreateRunRequest(input=given) for name, given in inputs(folder).items()}
        # A question of a thread knows the one before it.
        await caller.ask("How many devices do I have?", thread_id="talk")
        asked["data_chat"].thread_id = "talk"
        created = {name: (await caller.create(request)).run_id for name, request in asked.items()}
        for run_id in created.values():
            await caller.wait(run_id)
        editor = Editor(caller)
        await editor.ask("Create a new ticket with the key 'TICKET-900' and the status 'open'.")
        deleting = await editor.ask("Delete the ticket TICKET-900.")
        created["graph_editor"] = (await editor.reply(deleting, "approve")).run.run_id
        connection = Connection(running.stack.gateway_address, running.stack.token(SUBJECT))
        async with open_gateway(connection) as gateway:
            cases = {name: await case_of(gateway, run_id) for name, run_id in created.items()}
        yield Pinned(running, cases, folder)


async def told(case: cases_pb2.Case, limits: Mapping[str, str] | None = None) -> str:
    """What a replay says."""
    replayed, _ = await replay(case, limits or {}, CaseSettings(), goes_on=False)
    return "\n".join(in_words(case, replayed))


def copied(case: cases_pb2.Case) -> cases_pb2.Case:
    another = cases_pb2.Case()
    another.CopyFrom(case)
    return another


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_pinned_run_decides_the_same(pinned: Pinned, agent: str) -> None:
    case = read_case(pinned.file(pinned.cases[agent], f"{agent}.json"))
    assert case == pinned.cases[agent]
    assert case.run.recorded
    status = STATUS[case.run.state]
    assert await told(case) == f"decides the same: {len(case.decisions)} decisions, {status}"
    sources = {answer.source for answer in case.answers}
    assert "model" in sources
    assert {"data_chat": {"guard", "sql_executor", "thread"}, "graph_editor": {"graph_executor", "person"}}.get(
        agent, {"code_executor"}
    ) <= sources


async def test_a_recording_holds_no_token_and_no_secret(pinned: Pinned) -> None:
    assert TOKEN.search(pinned.running.stack.token(SUBJECT).encode())
    held = b"".join(case.SerializeToString() for case in pinned.cases.values())
    assert b"TICKET-900" in held
    assert not TOKEN.search(held)
    for word in (b"Bearer", b"authorization", b"PRIVATE KEY"):
        assert word not in held


@pytest.mark.parametrize(
    ("agent", "limit", "recorded", "now"),
    [
        ("data_chat", "max_iterations=1", "`tool_calls` → tools", "`iteration_limit` → format_answer"),
        ("incident_investigation", "max_iterations=1", "`tool_calls` → tools", "`low_confidence` → validation"),
    ],
)
async def test_another_limit_parts_at_the_decision_that_it_changes(
    pinned: Pinned, agent: str, limit: str, recorded: str, now: str
) -> None:
    case = pinned.cases[agent]
    name, _, value = limit.partition("=")
    words = await told(case, {name: value})
    parts = next(line for line in words.splitlines() if line.startswith("parts at decision"))
    sequence = int(parts.split()[3].rstrip(","))
    was = case.decisions[sequence - 1]
    assert f"`{was.rule}` → {was.destination}" == recorded
    assert f"  recorded: {recorded}\n  now:      {now}\n" in words


async def test_a_changed_fact_is_named_where_the_way_is_left(pinned: Pinned) -> None:
    """A recording whose guard blocks: what nodes hear is what decides."""
    case = copied(pinned.cases["data_chat"])
    case.decisions[0].rule = "admin_bypass"
    words = await told(case)
    assert "parts at decision 1, after screen_question, by data_chat.route_after_screen" in words
    assert "recorded: `admin_bypass`" in words


async def test_a_recording_that_lacks_an_answer_says_which(pinned: Pinned) -> None:
    case = copied(pinned.cases["data_chat"])
    [query] = [number for number, each in enumerate(case.answers) if each.method == "CallTool execute_db_query"]
    del case.answers[query]
    words = await told(case)
    lacks = "the recording has no answer of sql_executor to CallTool execute_db_query"
    assert words == f"after decision 2 of 3 recorded ones: {lacks}"
    case = copied(pinned.cases["graph_editor"])
    [person] = [number for number, each in enumerate(case.answers) if each.source == "person"]
    del case.answers[person]
    assert "the recording has no answer of person to answer" in await told(case)


async def test_files_that_are_no_case_are_refused(pinned: Pinned) -> None:
    text = pinned.file(pinned.cases["data_chat"]).read_text()
    wrong = {
        "damaged, or no case": text[: len(text) // 2],
        "has the form 7; this release reads form 1": text.replace('"form": 1', '"form": 7'),
        "names no form": "{}",
        "decisions are missing": text.replace('"sequence": "2"', '"sequence": "9"'),
        "lacks the run's agent": text.replace('"agent": "data_chat"', '"agent": ""'),
    }
    for words, content in wrong.items():
        path = pinned.folder / "wrong.json"
        path.write_text(content)
        with pytest.raises(CaseError, match=words):
            read_case(path)
    with pytest.raises(CaseError, match="max_speed"):
        await told(pinned.cases["data_chat"], {"max_speed": "1"})


@pytest.mark.parametrize("agent", AGENTS)
async def test_what_was_asked_is_pinned_and_no_replay_needs_it(pinned: Pinned, agent: str) -> None:
    case = copied(pinned.cases[agent])
    for each in case.answers:
        if each.source == "model":
            assert each.request["messages"], each.method
        elif each.method.startswith("CallTool"):
            assert each.request.fields or not each.answer, each.method
        assert not {"idempotency_key", "epoch"} & set(each.request.fields)
        # As recordings are that were made before requests were kept.
        each.ClearField("request")
        each.ClearField("request_bytes")
    decided = f"decides the same: {len(case.decisions)} decisions, {STATUS[case.run.state]}"
    assert await told(case) == decided


async def run_command(pinned: Pinned, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Runs the command where there is no platform but by its address."""
    process = await asyncio.create_subprocess_exec(
        *program("services.cli"), *arguments,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"COLUMNS": "200", **environment}, cwd=pinned.folder,
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_the_commands_pin_and_replay(pinned: Pinned) -> None:
    stack, case = pinned.running.stack, pinned.cases["incident_investigation"]
    here = {"SIGNALBOX_TOKEN": stack.token(SUBJECT), "SIGNALBOX_GATEWAY": stack.gateway_address}
    status, out, err = await run_command(pinned, "pin", case.run.run_id, "--output", "pinned.json", **here)
    assert (status, f"{len(case.answers)} answers" in out) == (0, True), err
    status, out, err = await run_command(pinned, "replay", "--case", "pinned.json")
    assert (status, out) == (0, f"decides the same: {len(case.decisions)} decisions, completed\n"), err
    with pytest.raises(CliError, match="no run"):
        async with open_gateway(Connection(stack.gateway_address, stack.token("31"))) as gateway:
            await case_of(gateway, case.run.run_id)


@pytest.mark.parametrize("by_role", [False, True])
async def test_from_where_it_parts_the_model_is_asked(pinned: Pinned, *, by_role: bool) -> None:
    path = pinned.file(pinned.cases["sast_triage"], "goes_on.json")
    async with ScriptedModel() as model:
        model.script("oracle", [Reply.text("The path is joined from what the caller gives.")], repeat="last")
        named = {
            "SIGNALBOX_MODEL_BASE_URL": model.base_url,
            "SIGNALBOX_AGENT_MODEL": "oracle",
            "SIGNALBOX_FORMAT_MODEL": "oracle",
        }
        parameters = {"base_url": model.base_url, "api_key_env": "ORACLE_KEY", "temperature": None}
        default = {"model": "none", "base_url": "http://127.0.0.1:9"}
        roles = {"default": default, "triage": {"model": "oracle", **parameters}}
        described = {"SIGNALBOX_MODELS": json.dumps(roles), "ORACLE_KEY": "secret"}
        status, out, err = await run_command(
            pinned, "replay", "--case", path.name, "--set", "max_iterations=1", "--continue",
            **(described if by_role else named),
        )  # fmt: skip
        asked = model.requests_of("oracle")
    assert (status, err) == (1, "")
    assert "now:      `max_iterations` → analyze_issue" in out
    assert asked
    assert all(("temperature" in each.body) is not by_role for each in asked)
    assert "  then 3: comprehensive_evaluation: `max_iterations` → __end__\n  and so it ended: needs_review" in out


async def test_prompts_that_are_others_than_the_runs_are_named(pinned: Pinned) -> None:
    case = copied(pinned.cases["sast_investigation"])
    assert (await replay(case, {}, CaseSettings(), goes_on=False))[1] == []
    judged = [call for each in case.decisions for call in each.calls if call.kind == "model"]
    assert {(call.service, bool(call.prompts)) for call in judged} == {("evaluator", True)}
    case.run.policy.prompts = "before"
    for call in judged:
        call.prompts = "judged"
    _, notes = await replay(case, {}, CaseSettings(), goes_on=False)
    assert notes == [
        "the prompts are others than the run's, before: models hear other words",
        "the evaluator's prompts are others than the run's, judged: models hear other words",
    ]
