"""What lists call a run: what it was asked, in a line, whichever agent it is of."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from signalbox.v1 import runs_pb2

from services.runtime.agents.registry import definitions
from services.runtime.agents.titles import LONGEST_TITLE, title
from services.runtime.hosted.definition import said_first

FINDING = {"ruleId": "B602", "location": {"file": "run.py", "firstLine": 7}, "message": "shell=True"}


@pytest.mark.parametrize(
    ("agent", "asked", "expected"),
    [
        ("data_chat", {"question": "How many?"}, "How many?"),
        ("graph_editor", {"goal": "Add a node."}, "Add a node."),
        ("graph_editor", {"undoRunId": "0199"}, "Undo run 0199"),
        ("incident_investigation", {"incidentId": "i1", "title": "Slow", "service": "web"}, "Slow (web)"),
        ("sast_triage", {"finding": FINDING}, "B602 at run.py:7: shell=True"),
        ("sast_investigation", {"finding": FINDING}, "B602 at run.py:7: shell=True"),
    ],
)
def test_each_agent_names_its_runs(agent: str, asked: dict[str, Any], expected: str) -> None:
    given = ParseDict({agent: asked}, runs_pb2.RunInput())
    assert definitions()[agent].title_of(given) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]}, "Hello"),
        ({"messages": [{"type": "human", "content": [{"type": "text", "text": "Look"}, {"image": 1}]}]}, "Look"),
        ({"messages": [["human", "Hello"]]}, "Hello"),
        ({"messages": "Hello"}, "Hello"),
        ({"messages": [["ai"], None, 3]}, ""),
        ({"topic": "bees"}, "bees"),
        ({"topic": "bees", "count": 2}, ""),
        ({}, ""),
    ],
)
def test_what_a_person_said_first_to_a_hosted_graph(values: dict[str, Any], expected: str) -> None:
    assert said_first(values) == expected


def test_a_title_is_one_short_line() -> None:
    assert title(" a\n\tb\u2028c\x00 ") == "a b c"
    assert title("x" * LONGEST_TITLE) == "x" * LONGEST_TITLE
    assert title("x" * 10**6) == "x" * (LONGEST_TITLE - 1) + "…"
