"""What a run brought, on the page: each agent's result in a form of its own, bounded, as text, and to be copied."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import (
    data_chat_pb2,
    graph_editor_pb2,
    hosted_pb2,
    incident_investigation_pb2,
    recorded_answers_pb2,
    runs_pb2,
    sast_pb2,
    table_pb2,
)

from services.console.explanation_page import result
from services.console.explanation_page.page import render_page
from services.console.explanation_page.result import MOST_ITEMS, MOST_ROWS, Messages, Rows, message_of, result_of
from services.console.recorded_pages import blocks_of
from tests.fixtures.walked_run import explained

COMMIT = "c0ffee" + "0" * 34


class Texts(HTMLParser):
    """What a reader finds in a page: its texts by the class or id of what they stand in."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[tuple[str, str]] = []
        self._within: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Enters an element."""
        if tag not in ("meta", "link", "rect", "path", "br", "input", "hr"):
            given = dict(attrs)
            self._within.append(given.get("id") or given.get("class") or tag)

    def handle_endtag(self, _tag: str) -> None:
        """Leaves it."""
        if self._within:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        """Notes a text."""
        if data.strip():
            self.texts.append(("/".join(self._within), data.strip()))

    def of(self, name: str) -> list[str]:
        """Returns the texts in elements of a class, id or tag."""
        return [text for within, text in self.texts if name in within.split("/")]


def page_of(**output: Any) -> str:
    """The page of a run that brought this."""
    told = explained()
    told.run.output.CopyFrom(runs_pb2.RunOutput(**output))
    return render_page(told)


def table(
    *rows: tuple[str, float | None], kind: table_pb2.ColumnType = table_pb2.COLUMN_TYPE_DOUBLE
) -> table_pb2.Table:
    made = table_pb2.Table()
    made.columns.add(name="city", type=table_pb2.COLUMN_TYPE_TEXT)
    made.columns.add(name="share", type=kind)
    for label, value in rows:
        row = made.rows.add()
        row.values.add(text_value=label)
        row.values.add(**({} if value is None else {"double_value": value}))
    return made


def test_an_answer_has_its_rows_its_chart_and_its_sql() -> None:
    rows = table(("Oslo", 30.0), ("Rome", -10.0))
    output = data_chat_pb2.DataChatOutput(answer="Oslo has most.", sql_query="SELECT 1", rows=rows)
    shown = Texts(page_of(data_chat=output))
    assert shown.of("words leads") == ["Oslo has most."]
    assert [text for text in shown.of("list found") if text in ("Oslo", "30", "Rome", "-10")] == [
        "Oslo", "30", "Rome", "-10",
    ]  # fmt: skip
    assert "SELECT 1" in shown.of("code")
    assert "share by city" in shown.of("chart")
    [block] = [each for each in result_of(explained_with(data_chat=output)).blocks if isinstance(each, Rows)]
    assert block.chart
    assert [(bar.x, bar.width) for bar in block.chart.bars] == [(25.0, 75.0), (0.0, 25.0)]


def explained_with(**output: Any) -> runs_pb2.Run:
    """A run that brought this."""
    return runs_pb2.Run(run_id="r", output=runs_pb2.RunOutput(**output))


@pytest.mark.parametrize(
    "rows",
    [
        table(("Oslo", 30.0)),
        table(("Oslo", 30.0), ("Rome", None)),
        table(("Oslo", 30.0), ("Oslo", 10.0)),
        table(("Oslo", float("nan")), ("Rome", 1.0)),
        table(*((f"town {number}", 1.0) for number in range(MOST_ROWS))),
    ],
    ids=["one row", "without a number", "one label twice", "not a number", "too many"],
)
def test_what_makes_no_chart_has_none(rows: table_pb2.Table) -> None:
    assert "share by city" not in page_of(data_chat=data_chat_pb2.DataChatOutput(answer="a", rows=rows))


def test_many_rows_are_cut_and_the_rest_is_in_the_json() -> None:
    rows = table(*((f"town {number}", 1.0) for number in range(MOST_ROWS + 3)))
    shown = Texts(page_of(data_chat=data_chat_pb2.DataChatOutput(answer="a", rows=rows)))
    assert "The JSON has 3 more rows." in shown.of("note")
    assert f"town {MOST_ROWS + 2}" not in shown.of("list found")
    assert f"town {MOST_ROWS + 2}" in "".join(shown.of("result-json"))


def test_what_a_block_leaves_out_is_said_once() -> None:
    output = sast_pb2.SastTriageOutput(verdict=sast_pb2.VERDICT_NEEDS_REVIEW)
    for number in range(MOST_ITEMS + 2):
        output.evidence.add(claim=f"claim {number}", file="a.py", first_line=1)
    shown = Texts(page_of(sast_triage=output))
    assert shown.of("note").count("2 more not shown here.") == 1
    debug = data_chat_pb2.DataChatOutput(answer="a")
    for number in range(MOST_ITEMS + 1):
        debug.debug.messages.add(role="ai", content=f"said {number}")
        debug.earlier_results.add(sql_query=f"SELECT {number}")
    page = page_of(data_chat=debug)
    for told in ("1 more not shown here.", "1 more queries not shown here."):
        assert page.count(told) == 1


def test_what_the_page_knows_nothing_of_is_shown_as_json_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "_BLOCKS", {})
    page = page_of(data_chat=data_chat_pb2.DataChatOutput(answer="Twelve of them."))
    assert page.count("Twelve of them.") == 1


def test_an_incident_has_its_cause_and_what_it_rests_on() -> None:
    output = incident_investigation_pb2.IncidentInvestigationOutput(
        root_cause="The pool is too small.", confidence=0.8, validated=True, recommendations=["Enlarge it."]
    )
    held = output.evidence.add(claim="The limit is 2.", holds=True, found="max = 2")
    held.code.CopyFrom(
        incident_investigation_pb2.CodeEvidence(
            file="pool.py", first_line=3, last_line=4, commit=COMMIT, quote="max = 2"
        )
    )
    walked = output.evidence.add(claim="It calls the api.", problem="no such edge")
    walked.graph_path.nodes.add(label="Service", key="web")
    walked.graph_path.nodes.add(label="Service", key="api")
    walked.graph_path.edges.add(type="CALLS")
    shown = Texts(page_of(incident_investigation=output))
    assert shown.of("words leads") == ["The pool is too small."]
    assert "confidence 0.80, confirmed by validation" in shown.of("words")
    assert "pool.py:3-4 at c0ffee000000" in shown.of("claims")
    assert "(Service web) -[CALLS]-> (Service api)" in shown.of("code")
    assert "no such edge" in shown.of("fails")
    assert "Enlarge it." in shown.of("plain")


def test_an_incident_without_a_cause_says_so() -> None:
    output = incident_investigation_pb2.IncidentInvestigationOutput(explanation="Nothing was slow.")
    shown = Texts(page_of(incident_investigation=output))
    assert shown.of("words leads") == ["No root cause was found."]
    assert not [text for text in shown.of("words") if "confidence" in text]


def test_a_verdict_has_the_code_that_it_cites() -> None:
    output = sast_pb2.SastTriageOutput(verdict=sast_pb2.VERDICT_TRUE_POSITIVE, justification="It runs a shell.")
    output.evidence.add(claim="shell=True", file="run.py", first_line=7, last_line=7, commit=COMMIT, quote="shell=True")
    shown = Texts(page_of(sast_triage=output))
    assert shown.of("words leads") == ["True positive: a weakness"]
    assert "run.py:7 at c0ffee000000" in shown.of("claims")
    assert "VERDICT_" not in "".join(text for within, text in shown.texts if "result-json" not in within)


def test_changes_of_a_graph_are_before_and_after() -> None:
    output = graph_editor_pb2.GraphEditorOutput(answer="Done.")
    change = output.change_set.nodes.add(kind=graph_editor_pb2.CHANGE_KIND_UPDATED)
    change.node.label, change.node.key = "Service", "web"
    change.before.update({"port": 80, "same": 1})
    change.after.update({"port": 81, "same": 1})
    shown = Texts(page_of(graph_editor=output))
    assert [text for text in shown.of("change") if text != "same"] == ["change", "Service web", "port", "80", "81"]


def test_what_a_hosted_graph_brought_is_a_conversation_and_the_rest_of_its_state() -> None:
    output = hosted_pb2.GraphOutput(agent="mine")
    output.output.update(
        {
            "messages": [
                {"type": "human", "content": "2 + 3?"},
                {"type": "ai", "content": "", "tool_calls": [{"name": "add", "args": {"a": 2}}]},
                {"type": "ai", "content": [{"type": "text", "text": "5"}]},
            ],
            "total": 5,
        }
    )
    shown = Texts(page_of(graph=output))
    assert shown.of("messages") == ["human", "2 + 3?", "ai", 'asks for add {"a": 2}', "ai", "5"]
    assert '"total": 5' in "".join(shown.of("code"))


def test_the_json_is_all_of_it_and_nothing_in_it_steers_the_reader() -> None:
    output = data_chat_pb2.DataChatOutput(answer="größer \u202e\x1b[31m\x7f\U000e0041 \u2066</pre><script>")
    [*_, text] = Texts(page_of(data_chat=output)).of("result-json")
    assert json.loads(text) == MessageToDict(output, preserving_proto_field_name=True)
    assert text.isprintable() or "\n" in text
    assert "größer" in text
    assert not {"\u202e", "\x1b", "\x7f", "\U000e0041", "\u2066"} & {*text}


def test_a_run_that_brought_nothing_has_no_result() -> None:
    assert 'id="result"' not in render_page(explained())


@pytest.mark.parametrize("odd", [5, True, {"a": 1}, ["a"], None])
def test_messages_of_any_shape_are_shown(odd: Any) -> None:
    message = {"role": "ai", "content": [{"text": odd}, odd], "tool_calls": odd}
    found = message_of(message)
    assert found is not None
    assert found[0] == "ai"
    answer = recorded_answers_pb2.RecordedAnswer(
        source="model", answer=json.dumps({"choices": [{"message": message}]}).encode()
    )
    [block] = blocks_of(answer)
    assert isinstance(block, Messages)
    assert block.messages == [found]
