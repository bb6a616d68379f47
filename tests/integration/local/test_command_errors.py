"""What the command says of mistakes that only its own processes show."""

import socket
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


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("8443", "must be host:port"), ("127.0.0.1:99999", "must be host:port"),
        ("192.0.2.1:8443", "can't listen at 192.0.2.1:8443"), ("..:8443", "can't listen at ..:8443"),
    ],
)  # fmt: skip
def test_up_refuses_an_address_that_it_can_not_listen_at(runtime_dir: Path, address: str, words: str) -> None:
    done = run_cli(runtime_dir, "up", "--listen", address)
    assert done.returncode == ExitCode.USAGE
    assert words in done.stderr.decode()
    assert "starting" not in done.stderr.decode()


@pytest.mark.parametrize("option", ["--listen", "--http"])
def test_up_says_at_once_that_a_port_is_taken(runtime_dir: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        done = run_cli(runtime_dir, "up", option, address)
    assert done.returncode == ExitCode.USAGE
    assert f"with `{option} 127.0.0.1:0` it is one that is free" in done.stderr.decode()
    assert f"can't listen at {address}: Address already in use" in done.stderr.decode()
    assert "starting" not in done.stderr.decode()


def test_what_is_wrong_with_a_policy_file_does_not_go_where_sql_goes(runtime_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("tables: [")
    done = run_cli(runtime_dir, "sql-policy", "plan", "--policy", str(tmp_path / "policy.yaml"))
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, b"")
    assert b"is not YAML" in done.stderr
