"""Goals and the plans for them: what is done, what is planned again, and what is said of it."""

from __future__ import annotations

from signalbox.v1 import runs_pb2

from services.kit.models.prompts import read_data
from tests.fixtures.prefixes import check_prefixes
from tests.fixtures.scripted_model import Reply
from tests.integration.graph_editor.conftest import DONE, Bench
from tests.integration.graph_editor.scripted_goals import COMPLEX, UPDATE, goal, plan, ticket


async def test_a_plan_is_done_operation_by_operation(bench: Bench) -> None:
    ann = ("add_node", {"label": "User", "key": "ann", "properties": {"name": "Ann"}})
    ends = {"from": {"label": "User", "key": "ann"}, "to": {"label": "Ticket", "key": "T-1"}}
    bench.script(
        parse=[COMPLEX], plan=[plan(ticket("T-1", status="open"), ann, reached=False),
                               plan(("add_edge", {"type": "REPORTS", **ends}))],
    )  # fmt: skip
    ended = await bench.ask()
    assert ended.rules == [
        "complex", "planned", "valid", "ok", "next_operation", "ok", "next_step", "planned", "valid", "ok",
        "goal_complete",
    ]  # fmt: skip
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "DONE")
    assert ended.output.answer.splitlines() == [
        "Created the node Ticket 'T-1' (status: open).",
        "Created the node User 'ann' (name: Ann).",
        "Created the edge REPORTS from User 'ann' to Ticket 'T-1'.",
    ]
    assert [(step.tool, step.result) for step in ended.output.steps] == [
        ("add_node", "created"), ("add_node", "created"), ("add_edge", "created"),
    ]  # fmt: skip
    assert (len(ended.output.change_set.nodes), len(ended.output.change_set.edges)) == (2, 1)
    assert await bench.nodes("Ticket") == {"T-1": {"status": "open"}}
    assert len(set(bench.faulty.calls)) == len(bench.faulty.calls) == 3


async def test_a_goal_that_is_said_to_be_reached_and_is_not_is_reached_in_part(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[plan(ticket("T-1", status="open"))])
    ended = await bench.ask("Create the tickets T-1 and T-2, and a 'REPORTS' edge from ann to each.")
    assert ended.rules[-1] == "goal_complete"
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "PARTLY")
    assert ended.output.answer.splitlines() == [
        "Created the node Ticket 'T-1' (status: open).",
        "The goal also names 'T-2', 'REPORTS', which nothing that was done is about.",
    ]


async def test_a_preview_writes_nothing(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[plan(ticket("T-1", status="open"), UPDATE)])
    ended = await bench.ask(preview=True)
    assert ended.rules == ["complex", "planned", "previewed"]
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "PREVIEWED")
    assert "Change the node Ticket 'T-1': status: closed." in ended.output.answer
    assert [step.result for step in ended.output.steps] == ["created", "updated"]
    assert [dict(node.after) for node in ended.output.change_set.nodes] == [{"key": "T-1", "status": "closed"}]
    assert bench.faulty.calls == []
    assert await bench.nodes("Ticket") == {}


async def test_a_tool_that_the_goal_names_and_nobody_has_is_told_of(bench: Bench) -> None:
    bench.script(parse=[goal("send_email", {"to": "team"})])
    ended = await bench.ask("Use the `send_email` tool.")
    assert ended.rules == ["simple", "unknown_tool", "systematic", "informed"]
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "NOT_DONE")
    assert "I have no tool 'send_email'" in ended.output.answer
    assert "add_node" in ended.output.answer
    assert "undo_change" not in ended.output.answer


async def test_a_tool_that_only_the_model_made_up_is_planned_again_once(bench: Bench) -> None:
    made_up = plan(("make_ticket", {"key": "T-1"}))
    bench.script(parse=[COMPLEX], plan=[made_up, plan(ticket("T-1"))])
    ended = await bench.ask()
    assert ended.rules == ["complex", "planned", "unknown_tool", "retry", *DONE]
    told = bench.model.requests_of("plan")[1].last_text
    assert 'there is no tool \\"make_ticket\\"' in told

    bench.script(parse=[COMPLEX], plan=[made_up, made_up])
    asked = await bench.ask()
    assert asked.rules[-2:] == ["identical", "ask"]
    assert asked.state == "AWAITING_INPUT"


async def test_arguments_that_do_not_fit_are_planned_again(bench: Bench) -> None:
    misfit = ("add_node", {"label": "Ticket"})
    bench.script(parse=[goal(*misfit)], plan=[plan(ticket("T-1"))])
    ended = await bench.ask()
    assert ended.rules == ["simple", "invalid_arguments", "retry", *DONE]
    assert bench.faulty.calls[0][0] == "add_node"
    assert len(bench.faulty.calls) == 1


async def test_a_node_that_does_not_exist_is_no_success(bench: Bench) -> None:
    bench.script(parse=[goal(*UPDATE)], plan=[plan(UPDATE)])
    asked = await bench.ask()
    assert asked.rules == ["simple", "valid", "failed", "retry", "planned", "valid", "failed", "identical", "ask"]
    assert "There is no node Ticket 'T-1'" in asked.run.input_request.question
    ended = await bench.reply(asked, "leave it as it is")
    assert ended.rules[-1] == "declined"
    assert (ended.state, ended.outcome, ended.run.stop_reason) == ("SUCCEEDED", "DECLINED", "")
    assert "Nothing was changed" in ended.output.answer


async def test_what_is_there_already_with_other_values_was_not_what_was_meant(bench: Bench) -> None:
    await bench.call(*ticket("T-1", status="open")[:1], **ticket("T-1", status="open")[1])
    bench.script(parse=[goal(*ticket("T-1", status="closed"))], plan=[plan(UPDATE)])
    ended = await bench.ask()
    assert ended.rules == ["simple", "valid", "ok", "retry", "retry", *DONE]
    assert ended.output.answer == "Changed the node Ticket 'T-1': status: closed."


async def test_a_goal_is_read_with_schemas_and_labels_and_again_with_what_went_wrong(bench: Bench) -> None:
    bench.script(parse=[Reply.text("What?")] * 3)
    ended = await bench.ask()
    assert ended.rules == ["parse_failed", "reparse", "parse_failed", "reparse", "parse_failed", "retries_exhausted",
                           "informed"]  # fmt: skip
    assert (ended.state, ended.run.stop_reason) == ("NEEDS_REVIEW", "retries_exhausted")
    check_prefixes(bench.model.requests_of("parse"))
    first, second, third = (request.last_text for request in bench.model.requests_of("parse"))
    assert all("REPORTS" in each for each in (first, second, third))
    assert "base_revision" not in first
    assert "went_wrong" not in first
    for again in (second, third):
        assert "there is no JSON object in it" in read_data(again)["went_wrong"]["message"]


async def test_permission_that_is_missing_is_told_of_at_once(bench: Bench) -> None:
    bench.script(parse=[goal("add_node", {"label": "Secret", "key": "S"})])
    ended = await bench.ask()
    assert ended.rules == ["simple", "valid", "failed", "systematic", "informed"]
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "NOT_DONE")
    assert "may not write nodes of the label Secret" in ended.output.answer


async def test_what_was_done_before_a_failure_is_said_and_no_more(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[plan(ticket("T-2"), UPDATE), plan(UPDATE)])
    ended = await bench.reply(await bench.ask(), "leave it as it is")
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "PARTLY")
    assert "Created the node Ticket 'T-2'." in ended.output.answer
    assert "Changed" not in ended.output.answer


async def test_what_was_found_is_worded_or_shown_as_it_came(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1")
    find = goal("query_graph", {"label": "Ticket"})
    bench.script(parse=[find, find], answer=[Reply.text("There is one ticket: T-1.")])
    assert (await bench.ask()).output.answer == "There is one ticket: T-1."
    bench.model.script("answer", [Reply.http_error(400)])
    ended = await bench.ask()
    assert (ended.state, "'T-1'" in ended.output.answer) == ("SUCCEEDED", True)


async def test_what_was_found_is_told_while_it_is_worded_and_withdrawn_where_it_does_not_hold(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1")
    find = goal("query_graph", {"label": "Ticket"}, effect="reads")
    words = "There is one ticket: T-1. It is the only one."
    bench.script(parse=[find], answer=[Reply.text(words)])
    run, told = await bench.hear("Which tickets are there?")
    assert run.output.graph_editor.answer == "".join(event.token_chunk.text for event in told) == words
    assert {event.token_chunk.node for event in told} == {"answer"}
    assert all(event.token_chunk.provisional for event in told)
    assert bench.model.requests_of("answer")[-1].body["stream"] is True

    bench.script(parse=[find], answer=[Reply.text("There is one ticket: T-1. There are 999 more. It is so.")])
    run, told = await bench.hear("Which tickets are there?")
    assert "999" not in run.output.graph_editor.answer
    assert "".join(event.token_chunk.text for event in told).strip() == "There is one ticket: T-1."
    assert told[-1].tokens_reset.cause == runs_pb2.TOKENS_RESET_CAUSE_WITHDRAWN


async def test_a_goal_that_writes_is_not_done_by_a_plan_that_reads(bench: Bench) -> None:
    look = ("query_graph", {"label": "Ticket"})
    bench.script(
        parse=[goal(complexity="complex", effect="writes")],
        plan=[plan(look), plan(look)],
        answer=[Reply.text("Created ZZ-1.")],
    )
    ended = await bench.ask("Create the ticket ZZ-1.")
    assert ended.rules == ["complex", "planned", "valid", "ok", "next_step", "plan_failed", "systematic", "informed"]
    assert ended.outcome == "NOT_DONE"
    assert "Created" not in ended.output.answer
    assert "Nothing was changed." in ended.output.answer
    assert not ended.output.change_set.nodes


async def test_whatever_its_model_takes_it_for(bench: Bench) -> None:
    bench.script(parse=[goal("query_graph", {"label": "Ticket"}, effect="reads")], plan=[plan(ticket("ZZ-1"))])
    ended = await bench.ask("Please create the ticket ZZ-1.")
    assert ended.rules == ["simple", "valid", "ok", "next_step", "planned", "valid", "ok", "goal_complete"]
    assert (ended.outcome, await bench.nodes("Ticket")) == ("DONE", {"ZZ-1": {}})


async def test_what_is_said_of_a_node_that_was_found_stands_in_it(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1", properties={"status": "open"})
    await bench.call("add_node", label="Ticket", key="T-2", properties={"status": "closed"})
    find = goal("query_graph", {"label": "Ticket"}, effect="reads")
    honest = ("T-1 is open, and T-2 is closed.", "There are 2 tickets: T-1 (open) and T-2 (closed).")
    lies = (
        "T-1 is closed.",
        "T-2 is open and T-1 is closed.",
        "T-1 is not open.",
        "All tickets are open.",
        "All is well.",
    )
    for words in (*honest, *lies):
        bench.script(parse=[find], answer=[Reply.text(words)])
        ended = await bench.ask("Which tickets are there?")
        assert (ended.output.answer == words) is (words in honest), words


async def test_what_was_found_is_not_worded_by_what_was_not(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1")
    find = goal("query_graph", {"label": "Ticket"}, effect="reads")
    lies = ("Created T-1.", "There are 999 tickets.", "See http://evil.example for T-1.", "T-1 and T-7.")
    for lie in (*lies, "There are no tickets.", "T-1 belongs to mallory."):
        bench.script(parse=[find], answer=[Reply.text(lie)])
        ended = await bench.ask("Which tickets are there?")
        assert (ended.outcome, lie in ended.output.answer) == ("DONE", False)
        assert "'T-1'" in ended.output.answer
