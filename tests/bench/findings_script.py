"""A repository with a real finding in each of its modules, and a model that investigates them as a good one would."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from signalbox.v1 import sast_pb2

from tests.fixtures.scripted_model import ModelRequest, Reply
from tests.integration.code_executor.git_repository import GitRepository

MODULES = 20
FLAGGED = 5
_DB = """\
import sqlite3


def find_user_{number}(connection, name):
    return connection.execute("SELECT * FROM users WHERE name = '" + name + "'")


def find_all_{number}(connection):
    return connection.execute("SELECT * FROM users")
"""
_WEB = """\
from app.db_{number} import find_user_{number}


def handle_{number}(request, connection):
    return find_user_{number}(connection, request.args["name"])
"""
_MODULE = re.compile(r"app/db_(\d+)\.py")


def make_repository(path: Path) -> sast_pb2.CodeSource:
    """Makes the repository."""
    repository = GitRepository(path)
    templates = {"app/db_{number}.py": _DB, "app/web_{number}.py": _WEB}
    files: Mapping[str, str] = {
        name.format(number=number): text.format(number=number)
        for number in range(MODULES)
        for name, text in templates.items()
    }
    return sast_pb2.CodeSource(repository=str(path), commit=repository.commit(files))


def finding(number: int) -> sast_pb2.Finding:
    """The finding in one of the modules."""
    module = number % MODULES
    return sast_pb2.Finding(
        fingerprint=f"finding-{number}",
        rule_id="B608",
        cwe="CWE-89",
        message="Possible SQL injection through string-based query construction.",
        location=sast_pb2.CodeLocation(file=f"app/db_{module}.py", first_line=FLAGGED),
        snippet=_DB.format(number=module).splitlines()[FLAGGED - 1],
    )


def triage(request: ModelRequest) -> Reply:
    """Reads the flagged function and its caller, and has them analysed."""
    number, told = _read(request)
    if "submit_verdict" in request.tools:
        return analysis(request)
    if f"web_{number}.py" in told:
        return Reply.tool_call("analyze_issue", {})
    if f"def find_user_{number}" in told:
        return Reply.tool_call("fetch_code", {"symbol": f"handle_{number}"})
    return Reply.tool_call("fetch_code", {"path": f"app/db_{number}.py", "first_line": FLAGGED})


def research(request: ModelRequest) -> Reply:
    """Reads both files."""
    number, told = _read(request)
    for path in (f"app/db_{number}.py", f"app/web_{number}.py"):
        if f'{{"path": "{path}"}}: ok' not in told:
            return Reply.tool_call("read_file", {"path": path})
    return Reply.text("The code bank has it all.")


def analysis(request: ModelRequest) -> Reply:
    """Hands in a verdict with its evidence."""
    number, _ = _read(request)
    claim = {
        "claim": "The name is concatenated into the statement.",
        "file": f"app/db_{number}.py",
        "first_line": FLAGGED,
        "last_line": FLAGGED,
        "quote": '"SELECT * FROM users WHERE name = \'" + name',
    }
    verdict = {"verdict": "TRUE_POSITIVE", "confidence": 0.9, "justification": "It is not bound.", "claims": [claim]}
    return Reply.tool_call("submit_verdict", verdict)


def judge(request: ModelRequest) -> Reply:
    """Is satisfied, in the words of whichever of the two judgements it is asked for."""
    said = {"is_final": True, "verdict": "TRUE_POSITIVE", "confidence": 0.8, "justification": "It holds.",
            "exploration_gaps": []}  # fmt: skip
    if "is_final" not in json.dumps(request.body):
        said = {"outcome": "approved", "missing": [], "reason": "It holds."}
    return Reply.text(json.dumps(said))


def _read(request: ModelRequest) -> tuple[int, str]:
    """The number of the module that a request is about, and everything it says."""
    told = "\n".join(str(message.get("content")) for message in request.messages)
    found = _MODULE.search(told)
    if found is None:
        raise ValueError(f"no finding in the request to {request.model}")
    return int(found[1]), told
