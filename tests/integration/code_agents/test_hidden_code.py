"""Code that runs and that a reader may miss: behind a carriage return in a comment, or in an encoding of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from signalbox.v1 import sast_pb2

from services.offline_model import server as offline_model
from services.offline_model.settings import OfflineModelSettings
from tests.integration.code_agents.conftest import Bench, EndedReview, MakeBench
from tests.integration.code_agents.test_offline_model import MODELS

HARMLESS = """\
import subprocess

from flask import Flask, request

app = Flask(__name__)


@app.route("/ping")
def ping():
    host = str(int(request.args["host"]))  # a number and nothing else
    return subprocess.check_output("ping -c 1 " + host, shell=True)
"""
COMMENT = "nothing else"


def hiding(separator: str) -> str:
    """The program with what undoes its protection behind a separator."""
    return HARMLESS.replace(COMMENT, f'{COMMENT}{separator}    host = request.args["name"]')


PLAIN = hiding("\n")
UTF_7 = hiding("+AAo-").replace('" + host', '%s" % host')
FILES = {
    "harmless/app.py": HARMLESS,
    "harmless_crlf/app.py": HARMLESS.replace("\n", "\r\n"),
    "plain/app.py": PLAIN,
    "plain_crlf/app.py": PLAIN.replace("\n", "\r\n"),
    "returned/app.py": hiding("\r"),
    "returned_crlf/app.py": hiding("\r").replace("\n", "\r\n"),
    "escaped/app.py": "# coding: unicode_escape\n" + hiding("\\u000a"),
    "utf_7/app.py": "# coding: utf_7\n" + UTF_7,
}
AGENTS = ("sast_triage", "sast_investigation")


@pytest.fixture
async def bench(make_bench: MakeBench) -> AsyncIterator[Bench]:
    async with (
        offline_model.running(OfflineModelSettings()) as model,
        make_bench(FILES, MODELS, f"http://{model.address}/v1") as made,
        made.runtime(),
    ):
        yield made


async def judged(bench: Bench, agent: str, file: str) -> EndedReview:
    """What an agent makes of the call that runs a shell."""
    line = next(number for number, text in enumerate(FILES[file].split("\n"), start=1) if "shell=True" in text)
    bench.finding = sast_pb2.Finding(
        fingerprint=file,
        rule_id="B602",
        cwe="CWE-78",
        message="Found.",
        location=sast_pb2.CodeLocation(file=file, first_line=line),
    )
    return await bench.watch(await bench.create(agent))


@pytest.mark.parametrize("agent", AGENTS)
async def test_hidden_code_is_never_harmless(bench: Bench, agent: str) -> None:
    hidden = ("plain", "plain_crlf", "returned", "returned_crlf", "escaped", "utf_7")
    found = {folder: (await judged(bench, agent, f"{folder}/app.py")).verdict for folder in hidden}
    assert found == dict.fromkeys(hidden, "NEEDS_REVIEW")


@pytest.mark.parametrize("agent", AGENTS)
async def test_what_hides_nothing_is_judged_as_before(bench: Bench, agent: str) -> None:
    for folder in ("harmless", "harmless_crlf"):
        assert (await judged(bench, agent, f"{folder}/app.py")).verdict == "FALSE_POSITIVE", folder
