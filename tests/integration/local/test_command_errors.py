"""What the command says of mistakes that only its own processes show."""

from pathlib import Path

import pytest

from services.cli.exit_codes import ExitCode
from tests.unit.cli.test_errors import invoke, run_cli


@pytest.fixture
def runtime_dir(tmp_path: Path) -> Path:
    """Where no platform has left word of itself."""
    return tmp_path / "nobody"


def test_an_argument_that_is_no_text_is_said_to_be_none(runtime_dir: Path) -> None:
    done = run_cli(runtime_dir, "ask", b"caf\xe9", "--as", "27")
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, b"")
    assert b"UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("SIGNALBOX_LEASE_S=5", "sets nothing"), ("runtime.LEASE_S=5", "sets nothing"),
        ("runtime.SIGNALBOX_LEASE_S", "sets nothing"), ("poet.SIGNALBOX_LEASE_S=5", "no service 'poet'"),
        ("runtime.SIGNALBOX_LEESE_S=5", "runtime has no setting SIGNALBOX_LEESE_S"),
    ],
)  # fmt: skip
def test_up_refuses_a_setting_that_no_service_has(runtime_dir: Path, setting: str, words: str) -> None:
    status, output = invoke("up", "--set", setting)
    assert status == ExitCode.USAGE
    assert words in output
    assert not runtime_dir.exists()


def test_what_is_wrong_with_a_policy_file_does_not_go_where_sql_goes(runtime_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("tables: [")
    done = run_cli(runtime_dir, "sql-policy", "plan", "--policy", str(tmp_path / "policy.yaml"))
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, b"")
    assert b"is not YAML" in done.stderr
