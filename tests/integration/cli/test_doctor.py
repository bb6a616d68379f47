"""`signalbox doctor`: what it says of what is well, of what is wrong, and that its commands mend it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import grpc
import pytest
from signalbox.v1 import agents_pb2

from tests.fixtures.forked import program
from tests.fixtures.postgres import PostgresCluster
from tests.fixtures.scripted_model import ScriptedModel
from tests.fixtures.scripted_replies import Reply
from tests.integration.cli.fake_gateway import FakeGateway, serving

AGENT = agents_pb2.Agent(name="data_chat")


async def doctor(directory: Path, *options: str, **env: str) -> tuple[int | None, dict[str, dict[str, str]]]:
    """Its status, and what it says of each thing."""
    environment = {"PATH": os.environ["PATH"], "SIGNALBOX_RUNTIME_DIR": str(directory / "run"), **env}
    process = await asyncio.create_subprocess_exec(
        *program("services.cli"), "doctor", "--json", *options, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert out, err.decode()
    return process.returncode, {each["name"]: each for each in json.loads(out)}


async def test_what_is_well_and_what_its_own_command_mends(tmp_path: Path, postgres_cluster: PostgresCluster) -> None:
    name = postgres_cluster.create_database()
    offered = {"ListAgents": agents_pb2.ListAgentsResponse(agents=[AGENT])}
    async with ScriptedModel() as model, serving(FakeGateway(offered)) as address:
        model.script("big", [Reply.text("yes")])
        env = {
            "SIGNALBOX_GATEWAY": address, "SIGNALBOX_TOKEN": "token",
            "SIGNALBOX_DATABASE_DSN": postgres_cluster.dsn(name), "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "key", "SIGNALBOX_AGENT_MODEL": "big",
        }  # fmt: skip
        status, found = await doctor(tmp_path, **env)
        assert status == 1
        assert {each for each in found if found[each]["found"] == "wrong"} == {"migrations"}
        assert found["database to ask"]["found"] == "not looked at"
        assert "PostgreSQL" in found["platform's database"]["seen"]
        assert "model big" not in found
        assert model.requests == []
        python, _, module = found["migrations"]["mend"].split()
        assert python == "python"
        mended = await asyncio.to_thread(
            subprocess.run, [*program(module)], env={**os.environ, **env}, capture_output=True, timeout=120, check=False
        )
        assert mended.returncode == 0, mended.stderr
        status, found = await doctor(tmp_path, "--probe", **env)
        assert (status, found["migrations"]["found"], found["model big"]["found"]) == (0, "well", "well"), found
        assert found["clock"]["found"] == "well"
    postgres_cluster.drop_database(name)


async def test_what_is_wrong_is_said_with_what_mends_it(tmp_path: Path) -> None:
    newer = agents_pb2.ListAgentsResponse(agents=[AGENT, agents_pb2.Agent(name="poet")])
    async with serving(FakeGateway({"ListAgents": newer})) as address:
        status, found = await doctor(
            tmp_path, SIGNALBOX_GATEWAY=address, SIGNALBOX_TOKEN="token", OPENAI_BASE_URL="http://127.0.0.1:1/v1",
            SIGNALBOX_AGENT_MODEL="big", SIGNALBOX_DATABASE_DSN="postgresql://nobody@127.0.0.1:1/none",
        )  # fmt: skip
    wrong = {name for name, each in found.items() if each["found"] == "wrong"}
    assert (status, wrong) == (1, {"platform", "platform's database", "model endpoint"})
    assert "does not know poet" in found["platform"]["seen"]
    assert all(found[name]["mend"] for name in wrong)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE])
async def test_a_platform_that_does_not_answer_well(tmp_path: Path, code: grpc.StatusCode) -> None:
    async with serving(FakeGateway({"ListAgents": code})) as address:
        status, found = await doctor(tmp_path, SIGNALBOX_GATEWAY=address, SIGNALBOX_TOKEN="token")
    assert (status, found["platform"]["found"]) == (1, "wrong")
    assert found["platform"]["mend"]
