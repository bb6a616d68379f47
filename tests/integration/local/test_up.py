"""`signalbox up` and the commands that talk to it, each as the process that a person would start."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
import signal
import stat
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import pytest_asyncio

from examples.harbour import repository as portal
from tests.integration.local.running_up import COMMAND, Up, all_gone, processes_of, start_up

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUESTION = "Count devices with temperature > 10"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def left_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def ready_files(up: Up) -> list[dict[str, str]]:
    """What the services said about where they listen."""
    return [json.loads(path.read_text()) for path in (up.runtime_dir / "up").glob("*.ready.json")]


async def runs(up: Up) -> set[str]:
    """Every run that there is; those of earlier tests may still be under way."""
    listed = json.loads((await up.run("runs", "--json", "--limit", "1000")).out)
    return {run["run_id"] for run in listed}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """One platform for the tests of this module."""
    policies = tmp_path_factory.mktemp("policies") / "policies.yaml"
    policies.write_text("data_chat: {max_error_attempts: 4, budget: {tool_calls: 30}}\n")
    running = await start_up(
        tmp_path_factory.mktemp("up") / "run", "--set", f"runtime.SIGNALBOX_POLICY_FILE={policies}",
        "--code-root", str(tmp_path_factory.mktemp("code")), "--set", "guard.SIGNALBOX_MODEL_RETRIES=4",
    )  # fmt: skip
    yield running
    await running.end(signal.SIGTERM)


async def test_a_question_is_answered_for_people(up: Up) -> None:
    result = await up.run("ask", QUESTION, "--as", "27")
    assert result.status == 0, result.err
    assert "6 devices" in result.out
    assert "SELECT" in result.out
    assert "explain" in result.out
    assert "agent took" in result.err  # progress, in lines, as this is no terminal
    assert "agent took" not in result.out


async def test_a_question_is_answered_for_programs(up: Up) -> None:
    result = await up.run("ask", QUESTION, "--as", "27", "--json")
    assert result.status == 0
    assert result.err == ""
    run = json.loads(result.out)
    assert run["state"] == "RUN_STATE_SUCCEEDED"
    assert run["caller"] == {"subject": "27"}
    assert run["output"]["data_chat"]["rows"]["rows"] == [{"values": [{"int_value": "6"}]}]


async def test_any_agent_is_run_from_a_file(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    file.write_text(f"question: {QUESTION}\n")
    result = await up.run("run", "data_chat", "--input", str(file), "--as", "27", "--label", "team=fleet")
    assert result.status == 0, result.err
    assert "6 devices" in result.out
    assert "agent took" in result.err
    file.write_text("question: [a, b]\n")
    [listed] = json.loads((await up.run("runs", "--label", "team=fleet", "--json")).out)
    assert (listed["agent"], listed["labels"]) == ("data_chat", {"team": "fleet"})
    assert json.loads((await up.run("runs", "--label", "team=fleets", "--json")).out) == []
    assert "team=fleet" in (await up.run("explain", listed["run_id"])).out
    unfit = await up.run("runs", "--label", "team=two words")
    assert (unfit.status, "labels['team']" in unfit.err) == (2, True)
    unknown = await up.run("runs", "--agent", "poet")
    assert unknown.status == 2
    assert (
        "agent: one of: data_chat, graph_editor, incident_investigation, sast_investigation, sast_triage" in unknown.err
    )
    refused = await up.run("run", "data_chat", "--input", str(file), "--as", "27")
    assert (refused.status, refused.out) == (2, "")
    assert "question: ['a', 'b'] is not of type 'string'" in refused.err


async def test_limits_are_listed_with_where_they_come_from(up: Up) -> None:
    listed = json.loads((await up.run("agents", "--json")).out)
    assert [agent["name"] for agent in listed] == [
        "data_chat", "graph_editor", "incident_investigation", "sast_investigation", "sast_triage",
    ]  # fmt: skip
    shown = (await up.run("policies", "data_chat")).out
    rows = {line.split()[1]: line.split()[2:] for line in shown.splitlines()[1:]}
    assert rows["max_error_attempts"] == ["4", "policy", "file"]
    assert rows["max_iterations"] == ["3", "default"]
    assert rows["budget.tool_calls"] == ["30", "policy", "file"]
    asked = json.loads((await up.run("ask", QUESTION, "--as", "27", "--json")).out)
    explained = (await up.run("explain", asked["run_id"])).out
    assert "max_error_attempts = 4  policy file" in explained
    assert "budget.tool_calls = 30  policy file" in explained
    assert "max_iterations = 3" in explained


async def test_an_admin_sees_every_row(up: Up) -> None:
    result = await up.run("ask", QUESTION, "--as", "1", "--admin")
    assert result.status == 0
    assert "79" in result.out


async def test_rows_are_written_as_csv(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    result = await up.run("ask", "Top 5 hottest devices", "--as", "27", "--csv", str(file))
    assert result.status == 0, result.err
    rows = list(csv.reader(io.StringIO(file.read_text())))
    assert len(rows) == 6
    assert "temperature" in rows[0]
    assert f"5 rows written to {file}" in result.err


async def test_a_file_that_cannot_be_written_is_told_before_anything_is_asked(up: Up, tmp_path: Path) -> None:
    before = await runs(up)
    result = await up.run("ask", QUESTION, "--as", "27", "--csv", str(tmp_path / "no" / "rows.csv"))
    assert result.status == 2
    assert "there is no directory" in result.err
    assert await runs(up) == before


async def test_a_blocked_question_has_its_own_status_and_writes_no_file(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("rows,of,an,earlier,question\n")
    result = await up.run("ask", "Show me the devices of user 31", "--as", "27", "--csv", str(file))
    assert result.status == 3
    assert "BLOCKED" in result.out
    assert "SELECT" not in result.out
    assert not file.exists()


async def test_a_run_can_be_found_shown_and_explained_afterwards(up: Up) -> None:
    asked = await up.run("ask", QUESTION, "--as", "27", "--json")
    run_id = json.loads(asked.out)["run_id"]
    listed = await up.run("runs", "--as", "27")
    assert run_id in listed.out
    shown = await up.run("show", run_id)
    assert shown.status == 0
    assert QUESTION in shown.out
    explained = await up.run("explain", run_id)
    assert explained.status == 0
    for words in ("route_after_screen → agent", "✓ allowed", "✗ blocked", "✓ tool_calls", "route_after_tools"):
        assert words in explained.out
    assert "the run as a whole" in explained.out
    assert "budget of model calls" in explained.out
    decisions = json.loads((await up.run("decisions", run_id, "--json")).out)
    assert [int(decision["sequence"]) for decision in decisions] == list(range(1, len(decisions) + 1))
    ended = await up.run("cancel", run_id)
    assert ended.status == 6  # it has ended otherwise


async def test_a_run_is_explained_by_a_page(up: Up, tmp_path: Path) -> None:
    run_id = json.loads((await up.run("ask", QUESTION, "--as", "27", "--json")).out)["run_id"]
    file = tmp_path / "why.html"
    written = await up.run("explain", run_id, "--html", str(file), "--as", "27")
    assert written.status == 0, written.err
    page = file.read_text()
    assert page.startswith("<!doctype html>")
    assert run_id in page
    assert page.count('class="decision"') == len(json.loads((await up.run("decisions", run_id, "--json")).out))
    assert "times by all runs" in page
    nowhere = await up.run("explain", run_id, "--html", str(tmp_path / "no such" / "why.html"))
    assert nowhere.status == 2
    strangers = await up.run("explain", run_id, "--html", str(tmp_path / "theirs.html"), "--as", "31")
    assert strangers.status != 0
    assert not (tmp_path / "theirs.html").exists()


async def test_decisions_are_found_and_counted(up: Up) -> None:
    asked = json.loads((await up.run("ask", QUESTION, "--as", "27", "--json")).out)
    filters = ("--agent", "data_chat", "--rule", "allowed", "--to", "agent", "--caller", "27")
    found = json.loads((await up.run("decisions", *filters, "--limit", "1", "--json")).out)
    assert [(each["run_id"], each["rule"]) for each in found] == [(asked["run_id"], "allowed")]
    order = ("--correlation-id", asked["correlation_id"])
    own = json.loads((await up.run("decisions", *order, "--as", "27", "--json")).out)
    assert {each["run_id"] for each in own} == {asked["run_id"]}
    theirs = await up.run("decisions", *order, "--as", "31")
    assert (theirs.status, theirs.out) == (0, "")
    later = await up.run("decisions", "--since", "2999-01-01", "--json")
    assert json.loads(later.out) == []
    counted = (await up.run("decisions", "--count", "--agent", "data_chat")).out
    assert any("already_answered" in line and "never" in line for line in counted.splitlines())
    assert any("allowed" in line and "never" not in line for line in counted.splitlines())
    for wrong in (("decisions", asked["run_id"], "--rule", "allowed"), ("decisions", "--count")):
        assert (await up.run(*wrong)).status == 2


async def test_a_run_of_somebody_else_is_not_found(up: Up) -> None:
    asked = await up.run("ask", QUESTION, "--as", "27", "--json")
    run_id = json.loads(asked.out)["run_id"]
    for command in ("show", "explain", "decisions", "cancel"):
        result = await up.run(command, run_id, "--as", "31")
        assert result.status == 6, command
        assert result.out == ""
        assert "--as" in result.err


async def test_lists_are_whole_on_a_narrow_terminal_and_a_line_each_in_a_pipe(up: Up) -> None:
    run_id = json.loads((await up.run("ask", QUESTION, "--as", "27", "--json")).out)["run_id"]
    wanted = json.loads((await up.run("decisions", run_id, "--json")).out)
    screen = await up.run_on_terminal("decisions", run_id)
    piped = (await up.run("decisions", run_id)).out.splitlines()
    assert max(map(len, screen)) <= 80
    assert len(piped) == len(wanted) + 1
    for decision, line in zip(wanted, piped[1:], strict=True):
        for name in ("node", "router", "rule", "destination"):
            assert decision[name] in line
            assert any(decision[name] in shown for shown in screen)
    listed = await up.run_on_terminal("runs", "--limit", "1000")
    assert max(map(len, listed)) <= 80
    known = await runs(up)
    assert {run_id for run_id in known if any(run_id in line for line in listed)} == known
    assert len((await up.run("runs", "--limit", "1000")).out.splitlines()) == len(known) + 1


async def test_ask_without_a_user_is_refused_before_anything_runs(up: Up) -> None:
    before = await runs(up)
    result = await up.run("ask", QUESTION)
    assert result.status == 2
    assert "--as 27" in result.err
    assert await runs(up) == before


async def test_settings_reach_their_service_and_metrics_ports_are_printed(up: Up) -> None:
    named = {words[2]: words[1] for words in map(str.split, up.greeting) if words[0] == "metrics:"}
    assert set(named) >= {"gateway", "runtime", "runtime-2", "guard", "sql_executor"}
    with urllib.request.urlopen(named["guard"]) as response:  # noqa: S310, ASYNC210 - on loopback
        assert b"signalbox_" in response.read()


async def test_debug_shows_model_calls_and_messages(up: Up) -> None:
    result = await up.run("ask", QUESTION, "--as", "27", "--debug")
    assert result.status == 0
    for words in ("security_guard", "format_answer", "Model calls", "Messages"):
        assert words in result.out


async def test_a_bad_question_names_its_field(up: Up) -> None:
    result = await up.run("ask", "   ", "--as", "27")
    assert result.status == 2
    assert "error: question must not be blank" in result.err


async def test_a_token_from_the_command_is_taken_by_the_gateway(up: Up) -> None:
    token = await up.run("token", "--as", "31")
    assert token.status == 0
    result = await up.run("ask", QUESTION, "--json", SIGNALBOX_TOKEN=token.out.strip())
    assert json.loads(result.out)["caller"] == {"subject": "31"}
    wrong = await up.run("runs", SIGNALBOX_TOKEN=token.out.strip()[:-6] + "AAAAAA")
    assert wrong.status == 6
    assert "TOKEN_INVALID" in wrong.err


@pytest.fixture
def frozen_model(up: Up) -> Iterator[None]:
    """A model that does not answer, so that a run goes on for as long as the test wants."""
    content = json.loads((up.runtime_dir / "up" / "offline_model.ready.json").read_text())
    os.kill(content["pid"], signal.SIGSTOP)
    yield
    os.kill(content["pid"], signal.SIGCONT)


@pytest.mark.usefixtures("frozen_model")
async def test_waiting_ends_at_the_timeout_and_says_that_the_run_goes_on(up: Up) -> None:
    result = await up.run("ask", QUESTION, "--as", "27", "--timeout", "2")
    assert result.status == 9
    assert "continues" in result.err
    found = re.search(r"`signalbox show (\S+)` shows it", result.err)
    assert found is not None, result.err
    assert found[1] in await runs(up)
    assert found[1] in result.err.splitlines()[-2]


@pytest.mark.usefixtures("frozen_model")
async def test_ctrl_c_ends_the_waiting_and_not_the_run(up: Up) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "ask", QUESTION, "--as", "27", env=up.env, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    assert b"running" in await asyncio.wait_for(process.stderr.readline(), 60)
    process.send_signal(signal.SIGINT)
    err = (await asyncio.wait_for(process.stderr.read(), 60)).decode()
    assert await process.wait() == 130
    found = re.search(r"the run continues: `signalbox show (\S+)`", err)
    assert found is not None, err
    assert "Traceback" not in err
    shown = json.loads((await up.run("show", found[1], "--json")).out)
    assert shown["state"] in ("RUN_STATE_PENDING", "RUN_STATE_RUNNING")
    cancelled = await up.run("cancel", found[1])
    assert cancelled.status == 0
    assert found[1] in cancelled.out


async def test_a_finding_is_triaged_where_code_may_be_read(up: Up) -> None:
    [root] = json.loads((up.runtime_dir / "endpoint.json").read_text())["code_roots"]
    portal.create(Path(root) / "portal")
    finding = ("--finding", str(portal.FINDINGS), "--fingerprint", "harbour-unchecked-join")
    result = await up.run("triage", *finding, "--repo", f"{root}/portal", "--as", "27", "--json")
    assert result.status in (0, 4), result.err
    outcome = json.loads(result.out)
    assert outcome["verdict"] != "FALSE_POSITIVE"
    assert not outcome["error"]


async def test_a_repository_elsewhere_is_refused_before_anything_runs(up: Up, tmp_path: Path) -> None:
    portal.create(tmp_path / "portal")
    before = await runs(up)
    finding = ("--finding", str(portal.FINDINGS), "--fingerprint", "harbour-unchecked-join")
    result = await up.run("triage", *finding, "--repo", str(tmp_path / "portal"), "--as", "27")
    assert result.status == 2
    assert f"--code-root {tmp_path / 'portal'}" in result.err
    investigated = await up.run("investigate", str(portal.FINDINGS), "--repo", str(tmp_path / "portal"), "--as", "27")
    assert investigated.status == 2
    assert await runs(up) == before


async def test_a_second_up_is_refused(up: Up) -> None:
    result = await up.run("up")
    assert result.status == 2
    assert "running already" in result.err


async def test_files_are_closed_to_others_and_ports_to_other_machines(up: Up) -> None:
    endpoint = json.loads((up.runtime_dir / "endpoint.json").read_text())
    assert mode(up.runtime_dir) == 0o700
    assert mode(Path(endpoint["signing_key"])) == 0o600
    contents = ready_files(up)
    assert len(contents) >= 6
    for content in contents:
        assert re.fullmatch(r"127\.0\.0\.1:\d+", content["listen"])
        assert re.fullmatch(r"127\.0\.0\.1:\d+", content["metrics"])


async def test_the_databases_are_reached_by_what_it_says_of_them(up: Up) -> None:
    said = {name: where for name, _, where in (line.strip().partition(": ") for line in up.greeting)}
    for name, query in {
        "the platform's database": "SELECT FROM platform.runs",
        "the demo world": "SELECT FROM ships",
    }.items():
        assert ":" not in urlsplit(said[name]).netloc.partition("@")[0]
        async with await psycopg.AsyncConnection.connect(said[name]) as connection:
            await connection.execute(query.encode())
    assert mode(up.runtime_dir / "up" / "pgpass") == 0o600


async def test_sigint_stops_everything_and_leaves_nothing(up: Up) -> None:
    pids = processes_of(up)
    assert len(pids) >= 6  # the model, the guard, the executor, two runtimes, the gateway
    assert await up.end(signal.SIGINT) == 0
    await all_gone(pids)
    assert left_in(up.runtime_dir) == ["lock"]
    result = await up.run("ask", QUESTION, "--as", "27")
    assert result.status == 5
    assert "signalbox up" in result.err


async def test_kill_9_takes_the_services_along(tmp_path: Path) -> None:
    killed = await start_up(tmp_path / "run")
    pids = processes_of(killed)
    assert len(pids) >= 6
    await killed.end(signal.SIGKILL)
    await all_gone(pids)
    assert (await killed.run("runs")).status == 5  # the endpoint file is there still, but its process is not
