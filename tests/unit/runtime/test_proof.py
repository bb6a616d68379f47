"""What is shown of a graph's tables, and how a bad one fails: with the walk that shows it, and its facts."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

import pytest
from signalbox_routing.table import END, Router, Rule, State
from signalbox_routing.terms import Always, Condition, InvalidTableError, terms

from services.evaluator.judge import ATTEMPTS
from services.runtime.agents.graph_editor.policy import GraphEditorPolicy
from services.runtime.agents.registry import agent_graphs, definitions
from services.runtime.commands.prove import in_words, main
from services.runtime.routing.effects import Cost, Effect, Outcome, changes, may_set, raises, sets
from services.runtime.routing.graph import AgentGraph, RoutedNode
from services.runtime.routing.model import Model
from services.runtime.routing.proof import Bound, prove
from services.runtime.routing.state import AgentState


@dataclass(frozen=True)
class Facts:
    """What the tables know."""

    rounds: int = 0
    errors: int = 0
    done: bool = False
    tool: str = ""
    confidence: float = 0.0
    most: int = 3
    budget_spent: str = ""


@dataclass(frozen=True)
class Policy:
    """What they hold it against."""

    max_rounds: int = 3
    max_errors: int = 2
    least_confidence: float = 0.7


class LoopState(AgentState, total=False):
    """The state behind the facts."""

    rounds: int
    errors: Annotated[int, operator.add]
    done: bool
    tool: str


f, p = terms(Facts), terms(Policy)
ENOUGH = Rule("enough", to=END, when=f.rounds >= p.max_rounds)
DONE = Rule("done", to=END, when=f.done)
AGAIN = Rule("again", to="agent", when=f.tool == "again")
GO_ON = Rule("go_on", to="work", when=Always())


def no_facts(_: State) -> Facts:
    return Facts()


async def nothing(_state: Any, _context: Any) -> dict[str, Any]:
    raise AssertionError("a proof runs no node")


def table(*rules: Rule, policy: Policy | None = None, name: str = "loop.route_after_agent") -> Router[Any, Any]:
    """A table over the facts."""
    return Router[Facts, Policy](name, facts=no_facts, policy=policy or Policy(), rules=rules)


def node(name: str, *effects: Effect, to: str | Router[Any, Any] = END, **more: Any) -> RoutedNode:
    """A node with one outcome."""
    outcomes = more.pop("outcomes", (Outcome("done", effects),))
    way: dict[str, Any] = {"then": to} if isinstance(to, str) else {"router": to}
    return RoutedNode(name, nothing, outcomes=outcomes, **way, **more)


def graph(*nodes: RoutedNode, **more: Any) -> AgentGraph:
    """A graph that begins with its first node."""
    return AgentGraph("loop", LoopState, nodes[0].name, nodes, **more)


def loop(*rules: Rule, agent: Sequence[Effect] = (), work: Sequence[Effect] = (), **more: Any) -> AgentGraph:
    """An agent that works until a rule ends it."""
    after = table(*rules, policy=more.pop("policy", None))
    agent_node = node("agent", changes(f.done), *agent, to=after, cost=Cost(model_calls=1))
    return graph(agent_node, node("work", *work, to="agent", cost=Cost(tool_calls=2)), **more)


def test_a_loop_that_a_counter_bounds_ends_and_its_costs_are_known() -> None:
    proof = prove(loop(ENOUGH, DONE, GO_ON, agent=[raises(f.rounds)]))
    assert proof.problems == []
    assert (proof.steps, proof.model_calls, proof.tool_calls) == (Bound(5), Bound(3), Bound(4))


def test_what_a_model_asks_for_at_once_is_no_number() -> None:
    bounded = loop(ENOUGH, DONE, GO_ON, agent=[raises(f.rounds)])
    agent, work = bounded.nodes
    proof = prove(replace(bounded, nodes=(agent, replace(work, cost=Cost(tool_calls=None)))))
    assert proof.tool_calls == Bound(0, open_visits=2)
    assert proof.costs[2] == "0 tool calls, and 2 times as many as a model asks for at once"


def test_what_only_a_first_visit_calls_is_counted_once() -> None:
    bounded = loop(ENOUGH, DONE, GO_ON, agent=[raises(f.rounds)])
    agent, work = bounded.nodes
    begins = replace(agent, cost=Cost(model_calls=1, first_tool_calls=3))
    assert prove(replace(bounded, nodes=(begins, work))).tool_calls == Bound(4 + 3)
    endless = replace(work, cost=Cost(tool_calls=None))
    assert prove(replace(bounded, nodes=(begins, endless))).tool_calls == Bound(3, open_visits=2)


def test_an_evaluation_is_declared_to_take_as_many_model_calls_as_the_judge_makes() -> None:
    judged = {
        node.name: node.cost.model_calls
        for each in agent_graphs()
        for node in each.nodes
        if node.name in ("comprehensive_evaluation", "evaluation")
    }
    assert judged == {"comprehensive_evaluation": ATTEMPTS, "evaluation": ATTEMPTS}


UNBOUNDED: dict[str, tuple[AgentGraph, str]] = {
    "no counter": (loop(DONE, GO_ON), "go_on → work"),
    "a way out by another node": (
        graph(
            node("agent", changes(f.done), to=table(Rule("done", to="last", when=f.done), GO_ON)),
            node("work", to="agent"),
            node("last"),
        ),
        "go_on → work",
    ),
    "a counter that no rule on the cycle reads": (
        graph(
            node("agent", raises(f.rounds), changes(f.done), to=table(DONE, GO_ON)),
            node("work", to="agent"),
            node("other", to=table(ENOUGH, GO_ON, name="loop.route_after_other")),
        ),
        "go_on → work",
    ),
    "a counter that may stay": (
        loop(ENOUGH, DONE, GO_ON, agent=[raises(f.rounds, least=0)]),
        "go_on → work",
    ),
    "a counter that the cycle sets back": (
        loop(ENOUGH, DONE, GO_ON, agent=[raises(f.rounds)], work=[sets(f.rounds, 0)]),
        "rounds = 1",
    ),
    "a way round the counter": (
        loop(AGAIN, ENOUGH, DONE, GO_ON, agent=[changes(f.tool)], work=[raises(f.rounds)]),
        "again → agent",
    ),
    "a rule's update that sets it back": (
        loop(
            ENOUGH,
            DONE,
            Rule("forgiven", to="work", when=f.tool == "sorry", then=lambda _: {"rounds": 0}),
            GO_ON,
            agent=[raises(f.rounds), changes(f.tool)],
        ),
        "forgiven → work",
    ),
    "a budget that may have no limit": (
        loop(Rule("budget_exhausted", to=END, when=f.budget_spent != ""), DONE, GO_ON),
        "budget_spent = ''",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNBOUNDED)
def test_a_cycle_that_nothing_bounds_fails_with_the_walk(what: str) -> None:
    bad, told = UNBOUNDED[what]
    problem = prove(bad).problems[0]
    assert problem.startswith("loop: nothing bounds this cycle:\n  1. agent")
    assert told in problem
    # The walk ends where it has been before, with the same facts.
    *_, last = [line.split(". ", 1)[1] for line in problem.splitlines()[1:]]
    assert last.split(" ")[0] in {"agent", "work"}


def test_two_counters_bound_a_loop_of_two_ways() -> None:
    erring = Rule("erring", to="agent", when=f.tool == "", then=lambda _: {"errors": 1})
    limits = [ENOUGH, Rule("too_many_errors", to=END, when=f.errors >= p.max_errors), erring, GO_ON]
    both = loop(*limits, agent=[changes(f.tool)], work=[raises(f.rounds), sets(f.errors, 0)])
    proof = prove(both)
    assert proof.problems == []
    # In each of three rounds one error, that is forgiven, and its work; then the agent alone.
    assert proof.steps == Bound(3 * 3 + 1)


def test_an_outcome_can_belong_to_the_rules_that_led_to_the_node() -> None:
    look = Rule("look", to="work", when=f.tool == "look")
    told = (Outcome("counted", (raises(f.rounds),), led_by=("go_on",)), Outcome("looked", led_by=("look",)))
    after = table(ENOUGH, look, GO_ON)
    bad = graph(node("agent", changes(f.tool), to=after), node("work", outcomes=told, to="agent"))
    assert "look → work" in prove(bad).problems[0]
    good = graph(node("agent", sets(f.tool, "a", "b"), to=after), node("work", outcomes=told, to="agent"))
    # Nothing leads by `look` there, and so nothing is not counted.
    assert [problem for problem in prove(good).problems if "cycle" in problem] == []


def rules_of(problems: Sequence[str]) -> list[str]:
    """The first line of each problem."""
    return [problem.splitlines()[0] for problem in problems]


def test_a_rule_that_no_run_comes_to_must_say_why() -> None:
    idle = Rule("idle", to=END, when=f.tool == "idle")
    bounded: dict[str, Any] = {"agent": [raises(f.rounds)]}
    assert rules_of(prove(loop(ENOUGH, idle, DONE, GO_ON, **bounded)).problems) == [
        "loop.route_after_agent: no run comes to 'idle', whatever the limits; say why it is there"
    ]
    explained = replace(idle, unreachable_because="old runs may have it")
    assert prove(loop(ENOUGH, explained, DONE, GO_ON, **bounded)).problems == []


def test_a_rule_that_is_declared_unreachable_and_is_not_fails_with_the_walk() -> None:
    done = replace(DONE, unreachable_because="nobody is ever done")
    [problem] = prove(loop(ENOUGH, done, GO_ON, agent=[raises(f.rounds)])).problems
    assert problem.splitlines()[0] == "loop.route_after_agent: 'done' is declared unreachable, and is reached:"
    assert "done = True" in problem.splitlines()[-1]


def test_a_rule_behind_one_that_takes_everything_of_it_is_found() -> None:
    hidden = Rule("far_enough", to=END, when=(f.rounds >= p.max_rounds) & f.done)
    problems = prove(loop(ENOUGH, hidden, DONE, GO_ON, agent=[raises(f.rounds)])).problems
    assert rules_of(problems) == [
        "loop.route_after_agent: no run comes to 'far_enough', whatever the limits; say why it is there"
    ]


def test_a_rule_that_only_the_present_limits_shut_off_is_told() -> None:
    errors = Rule("errors", to=END, when=f.errors >= p.max_errors)
    effects = [raises(f.rounds), raises(f.errors, least=0)]
    assert prove(loop(ENOUGH, errors, DONE, GO_ON, agent=effects)).unused == []
    lenient = prove(loop(ENOUGH, errors, DONE, GO_ON, agent=effects, policy=Policy(max_errors=9)))
    assert (lenient.problems, lenient.unused) == ([], [("loop.route_after_agent", "errors")])
    assert "no run comes to errors under the present limits" in in_words(lenient)


def test_a_node_that_no_run_comes_to_is_found() -> None:
    bounded = loop(ENOUGH, DONE, GO_ON, agent=[raises(f.rounds)])
    assert prove(replace(bounded, nodes=(*bounded.nodes, node("idle")))).problems == [
        "loop: no run comes to the node 'idle'"
    ]


def test_a_graph_that_is_cut_off_before_its_rules_end_it_is_found() -> None:
    bounded = loop(ENOUGH, DONE, GO_ON, agent=[raises(f.rounds)], max_steps=4)
    assert prove(bounded).problems == ["loop: a run can take 5 steps, and is cut off at 4"]


@pytest.mark.parametrize(
    ("when", "given", "reached"),
    [
        (f.confidence < p.least_confidence, changes(f.confidence), True),
        # Under some other limit it is.
        (f.confidence < p.least_confidence, sets(f.confidence, 0.9), True),
        (f.confidence < 0.7, sets(f.confidence, 0.9), False),
        (f.confidence == 0.7, changes(f.confidence), True),
        ((f.confidence > 0.2) & (f.confidence < 0.3), changes(f.confidence), True),
        ((f.confidence > 0.3) & (f.confidence < 0.2), changes(f.confidence), False),
        (f.errors == 1, raises(f.errors, least=2, most=4), False),
        (f.errors == 3, raises(f.errors, least=2, most=None), True),
        (f.tool.is_in(("a", "b")), sets(f.tool, "c"), False),
        (~f.tool.is_in(("a", "")), sets(f.tool, "c"), True),
        (f.done, may_set(f.done, True), True),
    ],
)
def test_facts_of_every_kind_are_told_apart_where_rules_tell_them_apart(
    when: Condition, given: Effect, reached: bool
) -> None:
    router = table(Rule("it", to=END, when=when), Rule("otherwise", to=END, when=Always()))
    problems = prove(graph(node("agent", given, to=router))).problems
    assert ("loop.route_after_agent: no run comes to 'it'" in "".join(problems)) is not reached


def test_what_no_rule_tells_apart_makes_no_two_positions() -> None:
    left = Rule("left", to="work", when=f.most <= 0)
    few = loop(ENOUGH, left, DONE, GO_ON, agent=[raises(f.rounds), changes(f.most)])
    assert {variable.name: variable.values for variable in Model(few).variables} == {
        "rounds": (0, 1, 2, 3),  # `rounds` is counted: what is below its limit is told apart by what is added
        "most": (0, 1),
        "done": (False, True),
    }


def test_facts_that_only_ways_not_taken_read_make_no_two_positions() -> None:
    failed = Rule("failed", to=END, when=f.done)
    reads = node("reads", to=table(Rule("known", to=END, when=f.tool == "a"), GO_ON, name="loop.route_after_reads"))
    outcomes = (
        Outcome("worked", (sets(f.done, False), changes(f.tool))),
        Outcome("did not", (sets(f.done, True),)),
    )
    works = node("agent", outcomes=outcomes, to=table(failed, Rule("on", to="reads", when=Always())))
    model = Model(graph(works, reads, node("work"), given=(changes(f.tool),)))
    # The tool is what `worked` makes it, and the run is over when that did not: what it was before is of no matter.
    assert len(model.beginnings()) == 1


def test_limits_too_high_to_be_looked_at_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.runtime.routing.proof.MOST_POSITIONS", 4)
    [problem] = prove(loop(ENOUGH, DONE, GO_ON, agent=[raises(f.rounds)])).problems
    assert problem == "loop: more than 4 positions to look at: nothing is shown under limits as high as these"


def test_facts_that_come_with_the_input_can_be_anything() -> None:
    router = table(DONE, Rule("otherwise", to=END, when=Always()))
    assert rules_of(prove(graph(node("agent", to=router))).problems) == [
        "loop.route_after_agent: no run comes to 'done', whatever the limits; say why it is there"
    ]
    assert prove(graph(node("agent", to=router), given=(changes(f.done),))).problems == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda: graph(RoutedNode("agent", nothing)), "the node 'agent' does not say what it may change"),
        (
            lambda: graph(node("agent", to=table(Rule("far", to=END, when=f.rounds >= f.most), GO_ON)), node("work")),
            "holds a fact against Facts.most, another",
        ),
        (
            lambda: loop(ENOUGH, DONE, GO_ON, agent=[changes(f.rounds)], work=[raises(f.rounds)]),
            "rounds is raised by some nodes and set to anything by others",
        ),
        (
            lambda: loop(ENOUGH, Rule("two", to=END, when=f.rounds >= p.max_errors), GO_ON, agent=[raises(f.rounds)]),
            "rounds has more than one limit, of which either may be higher: max_errors, max_rounds",
        ),
        (
            lambda: loop(ENOUGH, DONE, GO_ON, agent=[raises(f.rounds)], policy=Policy(max_rounds=1_000_000)),
            "rounds is held against 1000000, and has too many values",
        ),
        (
            lambda: loop(ENOUGH, DONE, GO_ON, agent=[raises(f.rounds)], work=[may_set(f.rounds, -5)]),
            "rounds can be -5: a count is never below 0",
        ),
        (
            lambda: loop(
                Rule("enough", to=END, when=f.errors >= p.max_errors),
                Rule("forgiven", to="work", when=f.done, then=lambda _: {"errors": -1}),
                Rule("erring", to="work", when=Always(), then=lambda _: {"errors": 1}),
            ),
            "errors can be -1: a count is never below 0",
        ),
    ],
)
def test_a_graph_of_which_nothing_can_be_said_says_why(bad: Callable[[], AgentGraph], words: str) -> None:
    [problem] = prove(bad()).problems
    assert words in problem


@pytest.mark.parametrize(
    "build", [
        lambda: sets(f.done, 1), lambda: raises(f.done), lambda: may_set(f.rounds, "a"),
        lambda: raises(f.rounds, least=-1),
    ],
)  # fmt: skip
def test_an_effect_that_makes_no_sense_is_refused(build: Callable[[], Effect]) -> None:
    with pytest.raises(InvalidTableError):
        build()


@pytest.mark.parametrize("each", agent_graphs(), ids=lambda each: each.name)
def test_every_agents_tables_are_proved_and_no_walk_is_longer_than_the_bound(each: AgentGraph) -> None:
    proof, model, chance = prove(each), Model(each), random.Random(7)  # noqa: S311 - for examples
    assert proof.problems == []
    assert proof.steps.count < each.max_steps
    longest, beginnings = 0, model.beginnings()
    for _ in range(500):
        position, steps = chance.choice(beginnings), 0
        while position is not None:
            step = chance.choice(list(model.steps(position)))
            position, steps = cast(Any, step.after), steps + 1
        longest = max(longest, steps)
    assert 1 < longest <= proof.steps.count


def test_unreachable_rules_of_data_chat_are_those_that_are_known() -> None:
    [data_chat] = [each for each in agent_graphs() if each.name == "data_chat"]
    declared = {
        (router.name.rpartition(".")[2], rule.name)
        for router in data_chat.routers
        for rule in router.rules
        if rule.unreachable_because
    }
    assert declared == {
        ("route_after_agent", "already_answered"),
        ("route_after_agent", "have_result"),
        ("route_after_agent", "query_already_executed"),
        ("route_after_tools", "iteration_limit"),
    }


def test_the_command_says_what_holds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.runtime.commands.prove.agent_graphs", lambda: [definitions()["data_chat"].outline])
    assert main([]) == 0
    said = capsys.readouterr().out
    assert "✓ data_chat: every run ends, after at most 7 nodes, 9 model calls" in said


def test_the_command_shows_what_is_wrong(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.runtime.commands.prove.agent_graphs", lambda: [loop(DONE, GO_ON)])
    assert main([]) == 1
    assert "✗ loop: nothing bounds this cycle:" in capsys.readouterr().out


def test_an_outcome_can_belong_to_the_facts_before_it() -> None:
    look = Rule("look", to="work", when=f.tool == "look")
    told = (Outcome("counted", (raises(f.rounds),), when=f.tool != "look"), Outcome("looked", when=f.tool == "look"))
    after = table(ENOUGH, look, GO_ON)
    bad = graph(node("agent", changes(f.tool), to=after), node("work", outcomes=told, to="agent"))
    assert "look → work" in prove(bad).problems[0]
    good = graph(node("agent", sets(f.tool, "a", "b"), to=after), node("work", outcomes=told, to="agent"))
    assert [problem for problem in prove(good).problems if "cycle" in problem] == []


def test_an_outcome_looks_at_facts_that_rules_read() -> None:
    odd = node("agent", outcomes=(Outcome("done", when=f.tool == "x"),), to=table(DONE, GO_ON))
    assert prove(graph(odd, node("work"))).problems == ["loop: 'agent' looks at tool, which no rule reads"]


def _editor(max_operations: int) -> AgentGraph:
    editor = definitions()["graph_editor"]
    return editor.graph(editor.nodes, GraphEditorPolicy(max_operations=max_operations))


def test_a_lower_limit_leaves_fewer_steps() -> None:
    lower, proof = prove(_editor(2)), prove(_editor(3))
    assert (lower.problems, proof.problems) == ([], [])
    assert 0 < lower.steps.count < proof.steps.count


def test_an_agent_that_does_not_count_its_questions_is_found_to_have_a_cycle() -> None:
    editor = _editor(2)
    [escalate] = [node for node in editor.nodes if node.name == "escalate"]
    outcomes = [
        replace(each, effects=tuple(effect for effect in each.effects if effect.fact != "questions_asked"))
        for each in escalate.outcomes or ()
    ]
    careless = replace(escalate, outcomes=tuple(outcomes))
    nodes = tuple(careless if node is escalate else node for node in editor.nodes)
    problem = prove(replace(editor, nodes=nodes)).problems[0]
    assert problem.startswith("graph_editor: nothing bounds this cycle:")
    assert "ask → ask_person" in problem
    assert "another_way → plan_step" in problem
    assert "about = something else" in problem
