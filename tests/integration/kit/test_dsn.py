"""A DSN that can't be read is refused at start, and its password is in nothing that is said about it."""

import os
import subprocess
import traceback
from pathlib import Path

import pytest
from pydantic import SecretStr

from services.kit.dsn import check_dsn
from tests.fixtures.forked import program

ROOT = Path(__file__).resolve().parents[3]
POLICY = ROOT / "examples" / "harbour" / "sql_policy.yaml"
EXAMPLES = ROOT / "examples" / "harbour" / "examples.yaml"
UNREADABLE = ["postgresql://user:hush%ZZhush@127.0.0.1/db", "postgresql:/user:hush@127.0.0.1/db", "hush"]
COMMANDS = {
    "sql_executor": (["services.sql_executor"], "SIGNALBOX_DATABASE_DSN"),
    "its examples": (["services.sql_executor"], "SIGNALBOX_EXAMPLES_DSN"),
    "sql-policy": (
        ["services.sql_executor.provisioning", "plan", "--policy", str(POLICY), "--dsn-env", "OWNER_DSN"], "OWNER_DSN",
    ),
    "load_examples": (
        ["services.sql_executor.load_examples", "--file", str(EXAMPLES), "--dsn-env", "OWNER_DSN"], "OWNER_DSN",
    ),
    "runtime": (["services.runtime"], "SIGNALBOX_DATABASE_DSN"),
    "direct": (["services.runtime"], "SIGNALBOX_DIRECT_DSN"),
    "migration": (["services.runtime.commands.migrate"], "SIGNALBOX_DATABASE_DSN"),
}  # fmt: skip


@pytest.mark.parametrize(("module", "variable"), COMMANDS.values(), ids=COMMANDS.keys())
def test_an_unreadable_dsn_is_refused_without_a_word_of_it(module: list[str], variable: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SIGNALBOX_")}
    environment[variable] = UNREADABLE[0]
    done = subprocess.run(
        [*program(module[0]), *module[1:]], env=environment, capture_output=True, text=True, timeout=120
    )
    said = done.stdout + done.stderr
    assert (done.returncode, "hush" in said, "Traceback" in said) == (2, False, False), said
    assert variable in said
    assert "can't be read as a DSN" in said


@pytest.mark.parametrize("dsn", UNREADABLE)
def test_neither_the_error_nor_its_causes_quote_the_dsn(dsn: str) -> None:
    with pytest.raises(ValueError, match="can't be read") as raised:
        check_dsn(SecretStr(dsn))
    assert "hush" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("dsn", ["postgresql://user:a%25b@[::1]:5432/db?sslmode=require", "host=/tmp user=x", ""])
def test_a_readable_dsn_stays_as_it_is(dsn: str) -> None:
    assert check_dsn(SecretStr(dsn)).get_secret_value() == dsn
