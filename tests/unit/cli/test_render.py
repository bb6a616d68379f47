"""Answers, tables and lists as a terminal shows them."""

from io import StringIO

import pytest
from rich.console import Console
from rich.rule import Rule
from rich.text import Text
from signalbox.v1 import costs_pb2, data_chat_pb2, maintenance_pb2, outcome_pb2, runs_pb2, threads_pb2

from services.cli import demo_findings, demo_scenes, render, replay, threads
from services.cli.errors import CliError
from services.cli.explain import explanation
from services.cli.labels import parse_labels
from services.cli.tables import rows
from services.cli.terminal import Terminal
from services.kit.text.words import duration, fact, parse_state, state_name
from tests.unit.cli.runs import RUN_ID, decisions, run, table, usage


def test_an_answer_shows_words_sql_rows_tokens_and_where_to_ask_why() -> None:
    shown = render.to_text(render.answer(run()))
    assert "Two devices are hot." in shown
    assert "SELECT name, temperature FROM devices" in shown
    assert "engine-room-007" in shown
    assert "45.25" in shown
    assert "812 tokens (700 in, 112 out)" in shown
    assert f"signalbox explain {RUN_ID}" in shown
    assert "SUCCEEDED" in shown


def test_a_null_is_told_from_an_empty_text() -> None:
    lines = render.to_text(rows(table())).splitlines()
    assert lines[2].split() == ["cabin-001", "NULL", "NULL"]


def test_a_cut_result_says_so() -> None:
    assert "there are more rows" in render.to_text(rows(table(truncated=True)))
    assert "there are more rows" not in render.to_text(rows(table()))


def test_a_failed_run_shows_its_error_and_no_empty_table() -> None:
    failed = runs_pb2.Run(run_id=RUN_ID, state=runs_pb2.RUN_STATE_FAILED, error="the model did not answer")
    shown = render.to_text(render.answer(failed))
    assert "The run failed: the model did not answer" in shown
    assert "FAILED" in shown
    assert "NULL" not in shown


def test_a_blocked_run_is_shown_as_blocked_though_it_succeeded() -> None:
    shown = render.state_text(run(stop_reason="blocked", outcome=outcome_pb2.OUTCOME_BLOCKED))
    assert (shown.plain, str(shown.style)) == ("BLOCKED", "magenta")


def test_a_list_has_colours_by_what_came_of_each_run() -> None:
    states, outcomes = runs_pb2.RunState, outcome_pb2.Outcome
    listed = [
        run(state=states.Value(f"RUN_STATE_{state}"), outcome=outcomes.Value(f"OUTCOME_{outcome}"))
        for state, outcome in (
            ("SUCCEEDED", "ANSWERED"), ("SUCCEEDED", "NOT_ANSWERED"), ("SUCCEEDED", "BLOCKED"),
            ("NEEDS_REVIEW", "NOT_DONE"), ("FAILED", "NOT_ANSWERED"), ("CANCELLED", "CANCELLED"),
            ("AWAITING_INPUT", "UNSPECIFIED"),
        )
    ]  # fmt: skip
    styles = [str(render.state_text(each).style) for each in listed]
    assert styles == ["green", "yellow", "magenta", "yellow", "red", "dim", "cyan"]
    printed = StringIO()
    Console(file=printed, force_terminal=True, color_system="standard", width=400).print(render.run_list(listed))
    for code, words in (("32", "answered"), ("33", "not answered"), ("35", "blocked"), ("31", "not answered")):
        assert f"\x1b[{code}m{words}" in printed.getvalue()


def test_a_run_that_awaits_input_shows_its_question() -> None:
    waiting = runs_pb2.Run(run_id=RUN_ID, state=runs_pb2.RUN_STATE_AWAITING_INPUT)
    waiting.input_request.question = "Which ticket?"
    assert "Which ticket?" in render.to_text(render.answer(waiting))


def test_debug_shows_messages_and_model_calls() -> None:
    record = data_chat_pb2.DataChatDebug(
        iterations=2,
        messages=[
            data_chat_pb2.DebugMessage(role="human", content="Which devices are hot?"),
            data_chat_pb2.DebugMessage(role="ai", tool_calls=["execute_db_query"]),
        ],
        model_calls=[
            data_chat_pb2.ModelCallRecord(
                purpose="security_guard", model="small", output="ALLOW", token_usage=usage(146, 1), elapsed_ms=33
            )
        ],
    )
    shown = render.to_text(render.debug(record), width=160)
    for words in ("security_guard", "ALLOW", "33 ms", "human: Which devices", "ai: [calls execute_db_query]", "2 iter"):
        assert words in shown


def test_details_leave_out_what_is_empty_and_tell_of_a_takeover() -> None:
    costs = costs_pb2.Costs(currency="EUR")
    costs.models.add(model="large", cost=1.5)
    costs.models.add(model="small", cost=0.0004)
    costs.models.add(model="other").token_usage.total_tokens = 1200
    shown = render.to_text(render.run_details(run(epoch=2, thread_id="t-1"), costs))
    assert "1.50 EUR, and 1,200 tokens of models without a price" in shown
    assert "2 (taken over)" in shown
    assert "t-1" in shown
    assert "correlation" not in shown
    assert "labels" not in shown


def test_labels_are_shown_in_the_order_of_their_keys() -> None:
    labelled = run()
    labelled.labels.update({"team": "payments", "stage": "", "a.b/c": "1"})
    for shown in (render.run_details(labelled), render.run_list([labelled]), explanation(labelled, [])):
        assert "a.b/c=1 stage= team=payments" in render.to_text(shown, width=200)


def test_labels_are_read_from_options() -> None:
    assert parse_labels(["team=payments", "stage=", "team=payments"]) == {"team": "payments", "stage": ""}
    for wrong in (["team"], ["=payments"], ["team=a", "team=b"]):
        with pytest.raises(CliError, match="label"):
            parse_labels(wrong)


def test_runs_and_decisions_are_a_line_each() -> None:
    assert len(render.to_text(render.run_list([run(), run()]), width=160).splitlines()) == 3
    shown = render.to_text(render.decision_list(decisions()), width=160)
    assert [line.split()[0] for line in shown.splitlines()[1:]] == ["1", "2", "3"]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_id_rule_or_number_is_cut_however_narrow_the_terminal(width: int) -> None:
    rule, router = "too_many_tool_calls_without_progress", "sast_investigation.route_after_evaluation"
    decision = decisions()[0]
    decision.rule, decision.router, decision.destination = rule, router, "collect_further_evidence"
    found = run(stop_reason=rule)
    found.caller.subject = "service-account-of-the-fleet"
    listed = " ".join(render.to_text(render.run_list([found]), width=width).split())
    for words in (RUN_ID, "service-account-of-the-fleet", "SUCCEEDED", "data_chat"):
        assert words in listed
    decided = " ".join(render.to_text(render.decision_list([decision]), width=width).split())
    assert router.replace(".", "") in decided.replace(" ", "").replace(".", "")
    for words in (rule, "collect_further_evidence"):
        assert words in decided
    assert "…" not in listed + decided


def test_a_row_that_does_not_fit_is_a_block_of_named_values() -> None:
    lines = render.to_text(render.run_list([run(), run()]), width=80).splitlines()
    assert all(len(line) <= 80 for line in lines)
    heads = [line for line in lines if not line.startswith(" ")]
    assert [head.split()[:2] for head in heads] == [["run", RUN_ID]] * 2
    assert any("state SUCCEEDED" in line for line in lines)


def test_what_is_no_terminal_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    wide = table()
    wide.rows[0].values[0].text_value = "word " * 100
    Terminal().out.print(rows(wide))
    Terminal().out.print(render.run_list([run()]))
    Terminal().rule("heading")
    lines = capsys.readouterr().out.splitlines()
    assert sum("word " * 99 in line for line in lines) == 1
    assert len([line for line in lines if RUN_ID in line]) == 1
    assert max(len(line) for line in lines if "heading" in line) == 80


def test_ids_are_whole_on_a_narrow_terminal_as_the_next_command_takes_them() -> None:
    thread = threads_pb2.Thread(thread_id=RUN_ID, active_run_id=RUN_ID, run_count=3)
    divergence = maintenance_pb2.Divergence(run_id=RUN_ID, rule="tool_call", other_rule="max_iterations")
    response = maintenance_pb2.ReplayDecisionsResponse(run_count=1, diverged_count=1, divergences=[divergence])
    for shown in (
        render.run_list([run()]),
        threads.thread_list([thread]),
        replay.replayed(response, "a.router", {}),
    ):
        assert RUN_ID in render.to_text(shown, width=80)


def test_rows_from_a_database_cannot_speak_to_the_terminal() -> None:
    hostile = table()
    hostile.rows[0].values[0].text_value = "\x1b[31mred[/bold]"
    hostile.columns[0].name = "n\x07"
    shown = render.to_text(rows(hostile))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\\x1b[31mred[/bold]" in shown


@pytest.mark.parametrize(
    ("milliseconds", "words"), [(0.04, "0.0 ms"), (0.5, "0.5 ms"), (35.4, "35 ms"), (999, "999 ms"), (1250, "1.25 s")]
)
def test_durations_suit_their_size(milliseconds: float, words: str) -> None:
    assert duration(milliseconds) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3.0, "3"), (0.7, "0.7"), (True, "yes"), (False, "no"), (None, "none"), ("x", '"x"'),
        (["a", 1.0], '["a", 1]'), ({"k": False}, "{k: no}"),
    ],
)  # fmt: skip
def test_facts_are_words(value: object, words: str) -> None:
    assert fact(value) == words


def test_states_have_short_names_and_unknown_ones_stay_numbers() -> None:
    assert state_name(runs_pb2.RUN_STATE_NEEDS_REVIEW) == "NEEDS_REVIEW"
    assert state_name(99) == "99"
    assert parse_state("needs-review") == runs_pb2.RUN_STATE_NEEDS_REVIEW
    with pytest.raises(ValueError, match=r"'done' is not a state; there are: pending, running"):
        parse_state("done")


def test_the_titles_of_the_demo_are_whole_on_a_narrow_terminal() -> None:
    for scene in (*demo_scenes.SCENES, demo_findings.SCENE):
        assert scene.title in render.to_text(Rule(Text(scene.title), align="left"), width=80)
