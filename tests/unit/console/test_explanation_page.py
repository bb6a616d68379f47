"""What the page that explains a run is made of: a graph that can be read, a timeline in bounds, a story in words."""

from __future__ import annotations

import html
from itertools import combinations

import pytest
from signalbox.v1 import runs_pb2

from services.cli.render import to_text
from services.cli.story import story
from services.console.explained import Explained
from services.console.explanation_page.graph_layout import NODE_HEIGHT, NODE_WIDTH, Drawing, draw
from services.console.explanation_page.page import render_page, shown
from services.console.explanation_page.route_drawing import END, edges_of
from services.console.explanation_page.timeline import WIDTH, timeline
from services.kit.models.offline_rules import OFFLINE_RULES
from services.runtime.agents.registry import definitions
from services.runtime.api.outline_wire import outline_proto
from tests.fixtures.cost import growth
from tests.fixtures.walked_run import RUN_ID, TWO_QUERIES, explained


def check_readable(drawing: Drawing) -> None:
    """Checks that no node covers another, and that nothing is drawn outside."""
    for (one, (x, y)), (other, (x2, y2)) in combinations(drawing.nodes.items(), 2):
        assert abs(x - x2) >= NODE_WIDTH or abs(y - y2) >= NODE_HEIGHT, f"{one} covers {other}"
    for x, y in drawing.nodes.values():
        assert NODE_WIDTH / 2 <= x <= drawing.width - NODE_WIDTH / 2
        assert NODE_HEIGHT / 2 <= y <= drawing.height - NODE_HEIGHT / 2


@pytest.mark.parametrize("agent", definitions())
def test_every_agents_graph_can_be_read(agent: str) -> None:
    definition = definitions()[agent]
    outline = outline_proto(definition.outline, definition.policy())
    links = list(edges_of(outline))
    drawing = draw([*(node.node for node in outline.nodes), END], links)
    check_readable(drawing)
    assert set(drawing.edges) == set(links)


def test_a_graph_of_another_shape_can_be_read_too() -> None:
    names = [f"n{number}" for number in range(9)]
    links = [(a, b) for a in names for b in names if (hash_of(a) + hash_of(b)) % 3 == 0]
    drawing = draw([*names, "alone"], [*links, ("n0", "n0")])
    check_readable(drawing)
    assert len(drawing.edges) == len({*links, ("n0", "n0")})


def hash_of(name: str) -> int:
    return int(name[1:]) * 7 + 1


def test_what_no_router_decides_about_has_the_traffic_that_came_there() -> None:
    told = explained(traffic={("agent", "format_answer"): 3, ("tools", "format_answer"): 4, ("agent", "tools"): 6})
    edges = {(edge.source, edge.target): edge for edge in shown(told)["drawing"].edges}
    assert (edges["format_answer", END].passages, edges["format_answer", END].traffic) == (1, 7)
    assert edges["agent", "tools"].traffic == 6
    assert "passed once by this run · 7 times by all runs" in render_page(told)
    assert not shown(explained())["drawing"].has_traffic


def test_a_run_that_rules_answered_says_so() -> None:
    told = explained()
    assert OFFLINE_RULES not in render_page(told)
    told.decisions[0].calls[0].offline_rules = True
    assert OFFLINE_RULES in render_page(told)


def test_the_prompts_of_a_service_that_asked_a_model_are_told() -> None:
    told = explained()
    for call in (call for step in told.story.route for call in step.calls):
        call.kind, call.service, call.prompts = "model", "guard", "4f5a"
    assert "asked with the guard's prompts 4f5a" in html.unescape(render_page(told))


def test_nothing_is_drawn_outside_of_the_run() -> None:
    shown = explained(asks="Go on?")
    # A replica whose clock is off.
    shown.story.route[1].calls[0].end_time.FromSeconds(1)
    lanes = timeline(shown.run, shown.story)
    bars = [bar for lane in lanes.lanes for bar in lane.bars]
    assert all(0 <= bar.x <= WIDTH and bar.width > 0 for bar in bars)
    assert len(lanes.cuts) == 1
    assert [lane.name for lane in lanes.lanes] == ["nodes", "guard", "model", "sql_executor", "person"]


def test_the_story_in_words() -> None:
    shown = to_text(story(explained(asks="Go on?").story), width=120)
    assert "before the first decision  0 tokens" in shown
    assert "1. allowed  440 tokens" in shown
    assert "asked “Go on?”  answered by 27 after 2 h 0 min" in shown
    assert "taken over at" in shown
    assert "iteration_limit  2 of 3 iterations, at decision 4" in shown


def test_the_page_is_one_file_with_all_that_it_needs() -> None:
    page = render_page(explained())
    assert page.startswith("<!doctype html>")
    assert RUN_ID in page
    assert "src=" not in page.replace("script-src", "").replace("style-src", "").replace("img-src", "")
    assert "http://" not in page
    assert "https://" not in page


def long_run(decisions: int) -> Explained:
    """A run that went round and round: decisions, charges and steps of a short one, as often as it takes."""
    short = explained()
    story = runs_pb2.RunExplanation(read_time=short.story.read_time, agent=short.story.agent)
    made = []
    for sequence in range(1, decisions + 1):
        at = sequence % len(TWO_QUERIES)
        made.append(runs_pb2.Decision())
        made[-1].CopyFrom(short.decisions[at])
        story.charges.add().CopyFrom(short.story.charges[at])
        story.route.add().CopyFrom(short.story.route[at])
        made[-1].sequence = story.charges[-1].sequence = story.route[-1].led_by = sequence
    return Explained(short.run, made, {}, story)


def test_a_long_run_costs_as_much_as_many_short_ones() -> None:
    parts, size = 8, 1600
    runs = {each: long_run(each) for each in (size, size // parts)}
    page = shown(runs[size])
    assert [each["charge"].sequence for each in page["decisions"]] == list(range(1, size + 1))
    assert [step.led_by for each in page["decisions"] for step in each["caused"]] == list(range(1, size + 1))
    assert growth(lambda decisions: shown(runs[decisions]), size, parts) < 3
