"""A team's image from ours, by the Dockerfile of docs/operations.md, is a pool that executes the team's graphs.

Its steps are carried out in plain folders: this file needs no engine, and can be run by itself.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import hosted_pb2, runs_pb2, runs_pb2_grpc

from services.local.postgres import EmbeddedPostgres
from services.local.processes import parse_ready
from services.runtime.commands.migrate import migrate
from tests.contract.deploy.helm import ROOT
from tests.fixtures.page import blocks
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.replica import KEYS, gateway_word
from tests.images.folders import Folders
from tests.images.test_builds_in_folders import context, folders, started

EXAMPLES = ROOT / "examples" / "graphs"
GRAPH = """
from typing import TypedDict

from langgraph.graph import StateGraph
from team_words import greeting

class Greeting(TypedDict, total=False):
    name: str
    said: str

builder = StateGraph(Greeting)
builder.add_node("greet", lambda state: {"said": greeting(state["name"])})
builder.set_entry_point("greet")
"""
__all__ = ["context", "folders"]


def wheel(folder: Path, name: str, source: str, requires: Sequence[str] = ()) -> None:
    """Makes a package of one module, as an index would have it."""
    folder.mkdir(exist_ok=True)
    metadata = "".join(
        [f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", *(f"Requires-Dist: {each}\n" for each in requires)]
    )
    info = f"{name}-1.0.dist-info"
    with ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", source)
        file.writestr(f"{info}/METADATA", metadata)
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """What a team brings: the examples, and a graph of its own that needs a package."""
    made = tmp_path / "team"
    shutil.copytree(EXAMPLES, made, ignore=shutil.ignore_patterns("__pycache__"))
    (made / "greeting.py").write_text(GRAPH)
    (made / "requirements.txt").write_text("team-words==1.0\n")
    file = json.loads((made / "langgraph.json").read_text())
    file["graphs"]["greeting"] = "./greeting.py:builder"
    (made / "langgraph.json").write_text(json.dumps(file))
    return made


async def test_an_image_from_ours_is_a_pool_that_executes_its_graphs(
    folders: Folders, team: Path, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    # It asks for a later gRPC than ours: no version of it is both.
    wheel(packages, "team_odd", "", ["grpcio>=99"])
    wheel(packages, "team_words", "def greeting(name):\n    return f'Hello, {name}.'\n")
    [dockerfile] = blocks(["dockerfile"])
    made = folders.build("runtime")
    index = {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(packages)}
    building = Folders(folders.context, folders.source, made, folders.uv, {**folders.env, **index})
    (team / "requirements.txt").write_text("team-odd==1.0\n")
    with pytest.raises(AssertionError, match="grpcio"):
        building.extend(dockerfile, team)
    (team / "requirements.txt").write_text("team-words==1.0\n")
    agents = building.extend(dockerfile, team)
    key, ready = tmp_path / "caller.pem", tmp_path / "ready.json"
    key.write_text(KEYS.public_pem)
    with EmbeddedPostgres(durable=False, start_timeout_s=START_TIMEOUT_S) as postgres:
        migrate(postgres.dsn())
        env = {
            "SIGNALBOX_POOL": "support",
            "SIGNALBOX_AGENT_FOLDERS": str(agents),
            "SIGNALBOX_DATABASE_DSN": postgres.dsn(),
            "SIGNALBOX_CALLER_TOKEN_PUBLIC_KEY_FILE": str(key),
            "SIGNALBOX_LISTEN": "127.0.0.1:0",
            "SIGNALBOX_METRICS_LISTEN": "127.0.0.1:0",
            "SIGNALBOX_READY_FILE": str(ready),
        }
        with started(made, env, tmp_path):
            async with grpc.aio.insecure_channel(parse_ready(ready).listen) as channel:
                asked = hosted_pb2.GraphInput(agent="greeting")
                asked.input.update({"name": "Ada"})
                create = runs_pb2.CreateRunRequest(input=runs_pb2.RunInput(graph=asked))
                call = runs_pb2_grpc.RunServiceStub(channel).ExecuteRun(
                    runs_pb2.ExecuteRunRequest(create=create), metadata=gateway_word("27"), timeout=START_TIMEOUT_S
                )
                ended = [each.event async for each in call][-1].run_ended.run
    assert ended.state == runs_pb2.RUN_STATE_SUCCEEDED, ended.error
    assert MessageToDict(ended.output.graph.output)["said"] == "Hello, Ada."
