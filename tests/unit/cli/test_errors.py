"""Errors say what happened and what to do, and leave with the right status."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
import typer
from grpc_status import rpc_status
from rich.console import Console
from signalbox.v1 import runs_pb2
from typer.testing import CliRunner

from services.cli.app import app
from services.cli.configured import stack_options
from services.cli.connection import Identity, connect_to
from services.cli.endpoint import Endpoint, only_one, read_endpoint, write_endpoint
from services.cli.errors import CliError, from_rpc, from_stream, not_running
from services.cli.exit_codes import ExitCode
from services.cli.settings import CliSettings
from services.cli.terminal import Terminal, run_command
from services.kit.errors import FieldViolation, SignalboxError, to_status

ADDRESS = "127.0.0.1:4000"


def rpc_error(
    code: grpc.StatusCode, reason: str = "", said: str = "what happened", **details: object
) -> grpc.aio.AioRpcError:
    """An error as a servicer sends it, or as gRPC itself makes it when there is no reason."""
    if not reason:
        return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "failed to connect")
    leaf = type("Leaf", (SignalboxError,), {"reason": reason, "code": code})
    status = rpc_status.to_status(to_status(leaf(said, **details)))
    metadata = grpc.aio.Metadata(*status.trailing_metadata)
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), metadata, status.details)


@pytest.mark.parametrize(
    ("error", "code", "message", "hint"),
    [
        (rpc_error(grpc.StatusCode.UNAVAILABLE), 5, f"no gateway answers at {ADDRESS}", "signalbox up"),
        (rpc_error(grpc.StatusCode.UNAVAILABLE, "RUNTIME_UNAVAILABLE"), 5, "RUNTIME_UNAVAILABLE", "try again"),
        (
            rpc_error(grpc.StatusCode.UNAVAILABLE, "ANSWER_UNSCREENED", metadata={"run_id": "r1"}),
            5, "what happened (ANSWER_UNSCREENED)", "try again in a moment",
        ),
        (rpc_error(grpc.StatusCode.UNAUTHENTICATED, "TOKEN_EXPIRED"), 6, "TOKEN_EXPIRED", "SIGNALBOX_TOKEN"),
        (rpc_error(grpc.StatusCode.PERMISSION_DENIED, "NO"), 6, "what happened", "rights"),
        (rpc_error(grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND"), 6, "RUN_NOT_FOUND", "signalbox runs"),
        (rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED), 5, "the platform did not answer within 30 s", "try again"),
        (
            rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED, "TOO_SLOW", metadata={"run_id": "r3"}),
            5, "did not answer within 30 s: what happened (TOO_SLOW)", "try again",
        ),
        (rpc_error(grpc.StatusCode.INTERNAL, "INTERNAL"), 6, "INTERNAL", "log"),
        (
            rpc_error(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_REQUESTS", retry_after_s=3.2),
            6, "TOO_MANY_REQUESTS", "try again in 3 s",
        ),
        (
            rpc_error(grpc.StatusCode.FAILED_PRECONDITION, "THREAD_BUSY", metadata={"active_run_id": "r2"}),
            6, "THREAD_BUSY", "signalbox show r2",
        ),
    ],
)  # fmt: skip
def test_a_failed_call_is_worded(error: grpc.aio.AioRpcError, code: int, message: str, hint: str) -> None:
    worded = from_rpc(error, ADDRESS, given_s=30.0)
    assert worded.code == code
    assert message in worded.message
    assert hint in worded.hint


@pytest.mark.parametrize(
    ("error", "timeout_s", "code", "message", "hint"),
    [
        (rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED), 2.0, 9, "the time for run r7 is over", "signalbox show r7"),
        (rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED), None, 5, "the platform did not answer in time", "try again"),
        (
            rpc_error(grpc.StatusCode.UNAVAILABLE, "RUNTIME_UNAVAILABLE", metadata={"run_id": "r7"}),
            None, 5, "what happened", "the run continues: `signalbox show r7`",
        ),
        (rpc_error(grpc.StatusCode.UNAVAILABLE), None, 5, f"no gateway answers at {ADDRESS}", "signalbox up"),
        (rpc_error(grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND"), 2.0, 6, "RUN_NOT_FOUND", "signalbox runs"),
    ],
)  # fmt: skip
def test_the_end_of_following_a_run_is_worded(
    error: grpc.aio.AioRpcError, timeout_s: float | None, code: int, message: str, hint: str
) -> None:
    worded = from_stream(error, ADDRESS, run_id="r7", timeout_s=timeout_s)
    assert worded.code == code
    assert message in worded.message
    assert hint in worded.hint


def test_a_deadline_before_a_run_is_known_says_how_to_find_it() -> None:
    worded = from_stream(rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED), ADDRESS, run_id="", timeout_s=2.0)
    assert worded.code == ExitCode.TIMED_OUT
    assert "did not answer in time" in worded.message
    assert "signalbox runs" in worded.hint


def test_every_wrong_field_is_named() -> None:
    violations = [FieldViolation("input.data_chat.question", "must not be blank"), FieldViolation("thread_id", "bad")]
    worded = from_rpc(rpc_error(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", violations=violations), ADDRESS)
    assert worded.code == ExitCode.USAGE
    assert "input.data_chat.question: must not be blank" in worded.message
    assert "thread_id: bad" in worded.message


QUESTION = "create.input.data_chat.question"


@pytest.mark.parametrize(
    ("violations", "told"),
    [
        ([(QUESTION, "must be at least 1 characters"), (QUESTION, "must not be blank")], "question must not be blank"),
        ([("a.name", "must be set"), ("b.name", "must be short")], "name must be set; name must be short"),
        ([("create.labels['team.name']", "must be text")], "labels['team.name'] must be text"),
        ([("", "update and input can't both be set")], "update and input can't both be set"),
    ],
)
def test_what_is_wrong_with_fields_that_a_message_only_lists_is_said_in_its_place(
    violations: list[tuple[str, str]], told: str
) -> None:
    fields = ", ".join(dict.fromkeys(field for field, _ in violations))
    message = f"the request breaks the rules of signalbox.v1.ExecuteRunRequest: {fields}"
    given = [FieldViolation(*each) for each in violations]
    raised = rpc_error(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", said=message, violations=given)
    assert from_rpc(raised, ADDRESS).message == f"{told} (INVALID_REQUEST)"


def test_a_message_that_says_something_itself_is_kept() -> None:
    violations = [FieldViolation("agent", "one of: data_chat, sast_triage")]
    said = "there is no agent 'data_caht'"
    raised = rpc_error(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", said=said, violations=violations)
    assert from_rpc(raised, ADDRESS).message.startswith(f"{said}\n  agent: one of: data_chat, sast_triage")


@pytest.fixture
def runtime_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for endpoint files, and an environment with nothing else of ours in it."""
    for name in [name for name in os.environ if name.startswith(("SIGNALBOX_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    directory = tmp_path / "run"
    monkeypatch.setenv("SIGNALBOX_RUNTIME_DIR", str(directory))
    return directory


def endpoint(directory: Path, *, pid: int | None = None) -> Endpoint:
    directory.mkdir(mode=0o700, exist_ok=True)
    (directory / "callers.pem").write_text("")
    given = Endpoint(ADDRESS, str(directory / "callers.pem"), "issuer", "audience", os.getpid() if pid is None else pid)
    write_endpoint(directory, given)
    return given


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, " ".join(result.output.split())


def test_ask_says_how_to_start_a_platform_when_none_runs(runtime_dir: Path) -> None:
    assert not runtime_dir.exists()
    status, output = invoke("ask", "hello")
    assert status == ExitCode.UNREACHABLE
    assert "no platform is running here" in output
    assert "signalbox up" in output


def test_what_names_a_gateway_is_told_as_it_is_taken(runtime_dir: Path) -> None:
    told = not_running().hint
    assert not runtime_dir.exists()
    assert "`signalbox --gateway HOST:PORT …`, or SIGNALBOX_GATEWAY" in told
    status, output = invoke("--gateway", ADDRESS, "runs")
    assert status == ExitCode.USAGE
    assert f"the gateway at {ADDRESS} wants a token" in output


def test_ask_says_at_once_that_nobody_is_named_who_asks(runtime_dir: Path) -> None:
    endpoint(runtime_dir)  # nothing listens there: no call is made
    for roles in ((), ("--admin",), ("--role", "auditor")):
        status, output = invoke("ask", "hello", *roles)
        assert status == ExitCode.USAGE
        assert "--as 27" in output


def test_the_endpoint_of_a_platform_that_died_does_not_count(runtime_dir: Path) -> None:
    endpoint(runtime_dir, pid=2**22 + 1)  # beyond the largest process id
    assert read_endpoint(runtime_dir) is None


def test_a_damaged_endpoint_file_is_said_to_be_damaged(runtime_dir: Path) -> None:
    endpoint(runtime_dir)
    (runtime_dir / "endpoint.json").write_text(json.dumps({"gateway": ADDRESS}))
    with pytest.raises(CliError, match="is damaged"):
        read_endpoint(runtime_dir)


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o770])
def test_a_directory_that_others_may_enter_is_not_trusted(runtime_dir: Path, mode: int) -> None:
    endpoint(runtime_dir)
    runtime_dir.chmod(mode)
    status, output = invoke("runs")
    assert status == ExitCode.USAGE
    assert "nobody else may enter" in output


def test_a_link_in_place_of_the_directory_is_not_trusted(runtime_dir: Path, tmp_path: Path) -> None:
    endpoint(tmp_path / "elsewhere")
    runtime_dir.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CliError, match="must be a directory of yours"):
        read_endpoint(runtime_dir)


def test_two_platforms_do_not_share_a_directory(runtime_dir: Path) -> None:
    with only_one(runtime_dir) as files:
        assert files.is_dir()
        with pytest.raises(CliError, match="running already"), only_one(runtime_dir):
            pytest.fail("the second one started")
    assert not files.exists()
    with only_one(runtime_dir):
        pass


def test_what_a_killed_platform_left_is_cleared_before_the_next(runtime_dir: Path) -> None:
    endpoint(runtime_dir)
    (runtime_dir / "up").mkdir()
    (runtime_dir / "up" / "old.log").write_text("old")
    with only_one(runtime_dir) as files:
        assert list(files.iterdir()) == []
        assert read_endpoint(runtime_dir) is None


def test_a_gateway_elsewhere_wants_a_token(runtime_dir: Path) -> None:
    assert not runtime_dir.exists()
    status, output = invoke("--gateway", "signalbox.example:443", "ask", "hello", "--as", "27")
    assert status == ExitCode.USAGE
    assert "SIGNALBOX_TOKEN" in output


def test_ones_own_token_and_another_name_contradict_each_other(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint(runtime_dir)
    monkeypatch.setenv("SIGNALBOX_TOKEN", "abc")
    assert connect_to(CliSettings(), Identity()).token == "abc"
    status, output = invoke("ask", "hello", "--as", "27")
    assert status == ExitCode.USAGE
    assert "already says who you are" in output


@pytest.mark.parametrize("token", ["a\nb", "t\u00f6ken", "a b", "\x1b"])
def test_a_token_that_is_none_is_refused_before_it_is_sent(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    endpoint(runtime_dir)
    monkeypatch.setenv("SIGNALBOX_TOKEN", token)
    status, output = invoke("runs")
    assert status == ExitCode.USAGE
    assert "SIGNALBOX_TOKEN" in output
    assert token not in output


def test_the_line_end_after_a_token_from_a_file_is_no_part_of_it(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint(runtime_dir)
    monkeypatch.setenv("SIGNALBOX_TOKEN", " abc\n")
    assert connect_to(CliSettings(), Identity()).token == "abc"


@pytest.mark.parametrize("command", [("ask", "hello"), ("runs",), ("show", "x"), ("token",)])
@pytest.mark.parametrize("name", ["", " ", "27\n31"])
def test_a_user_without_a_name_is_not_taken_for_the_operator(
    runtime_dir: Path, command: tuple[str, ...], name: str
) -> None:
    """As in `--as "$USER_ID"`, where nothing set it."""
    endpoint(runtime_dir)
    status, output = invoke(*command, "--as", name)
    assert status == ExitCode.USAGE
    assert "--as" in output


def test_a_full_disk_is_said_to_be_full(runtime_dir: Path) -> None:
    async def write() -> ExitCode:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(typer.Exit) as ended:
        run_command(write(), Terminal(err=(err := Console(record=True, file=io.StringIO()))))
    assert ended.value.exit_code == ExitCode.USAGE
    assert "No space left on device" in err.export_text()
    assert not runtime_dir.exists()


def test_json_says_the_same_and_cannot_speak_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x9b2Jred \x1b]0;title\x07 \u202etxt.exe \u00fc \u5f20"
    Terminal().json(runs_pb2.Run(error=hostile))
    Terminal().json_list([runs_pb2.Run(error=hostile)])
    shown = capsys.readouterr().out
    assert shown.replace("\n", "").isprintable()
    assert "\u00fc \u5f20" in shown
    one, _, several = shown.partition("}\n[")
    assert json.loads(one + "}")["error"] == json.loads("[" + several)[0]["error"] == hostile


def run_cli(runtime_dir: Path, *arguments: str | bytes) -> subprocess.CompletedProcess[bytes]:
    """The command as a process of its own."""
    environment = {**os.environ, "SIGNALBOX_RUNTIME_DIR": str(runtime_dir), "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, "-m", "services.cli", *arguments], env=environment, capture_output=True, timeout=120
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("runs", "--state", "done"), "'done' is not a state"),
        (("ask",), "Missing argument"),
        (("edit-graph", " "), "must not be blank"),
        (("ask", "x", "--timeout", "0"), "--timeout"),
        (("sql-policy", "plan", "--policy", "/no/such/file"), "does not exist"),
        (("sing",), "No such command"),
        (("token", "--as", "27", "--ttl", "0"), "--ttl"),
    ],
)
def test_wrong_usage_is_told_apart(runtime_dir: Path, arguments: tuple[str, ...], words: str) -> None:
    endpoint(runtime_dir)
    status, output = invoke(*arguments)
    assert status == ExitCode.USAGE
    assert words in output


@pytest.mark.parametrize("time", ["inf", "1e10", "1e12", "1000000001"])
@pytest.mark.parametrize(
    "command",
    [
        ("ask", "x", "--as", "27"), ("run", "data_chat", "--as", "27"), ("resume", "r"), ("edit-graph", "x"),
        ("undo", "r"), ("check-model",),
    ],
)  # fmt: skip
def test_a_time_that_grpc_takes_for_the_past_is_refused(runtime_dir: Path, command: tuple[str, ...], time: str) -> None:
    assert not runtime_dir.exists()
    status, output = invoke(*command, "--timeout", time)
    assert status == ExitCode.USAGE
    assert "--timeout" in output
    assert "is more than 1,000,000,000 s" in output


def test_an_endpoint_of_a_model_needs_a_model_name(runtime_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not runtime_dir.exists()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(CliError) as caught:
        stack_options(CliSettings())
    assert "SIGNALBOX_AGENT_MODEL" in caught.value.hint
    monkeypatch.setenv("SIGNALBOX_AGENT_MODEL", "big")
    model = stack_options(CliSettings()).model
    assert model is not None
    assert (model.guard_model, model.agent_model, model.format_model) == ("big", "big", "big")


def test_a_database_of_ones_own_needs_its_policy(runtime_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not runtime_dir.exists()
    monkeypatch.setenv("SIGNALBOX_USER_DATABASE_DSN", "postgresql://reader:hidden@db/fleet")
    with pytest.raises(CliError, match="not the policy") as caught:
        stack_options(CliSettings())
    assert "SIGNALBOX_SQL_POLICY" in caught.value.hint
    assert "hidden" not in repr(CliSettings())
