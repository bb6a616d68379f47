"""`signalbox explain`: a run's decisions as a tree."""

from signalbox.v1 import runs_pb2

from services.cli.explain import explanation
from services.cli.progress import now_doing, what_happened
from services.cli.render import to_text
from services.kit.models.offline_rules import OFFLINE_RULES
from services.kit.text.words import moment
from tests.unit.cli.runs import RUN_ID, decisions, run, struct

EXPECTED = """\
data_chat  0199a0c0-0000-7000-8000-000000000000  SUCCEEDED  1.25 s, 812 tokens (700 in, 112 out), policy 39527fab
├── “Which devices are hot?” asked by 27
├── 1. screen_question  35 ms, 147 tokens (146 in, 1 out)
│   ├── guard screen ok  33 ms, 147 tokens (146 in, 1 out)
│   └── data_chat.route_after_screen → agent
│       ├── ✗ blocked  screening = "allowed"
│       └── ✓ allowed  screening = "allowed"
├── 2. agent  1.25 s, 540 tokens (500 in, 40 out)
│   ├── model big ok  1.20 s, 540 tokens (500 in, 40 out)
│   ├── tool execute_db_query restricted_table  0.4 ms
│   └── data_chat.route_after_agent → tools
│       ├── ✗ already_answered  already_answered = no
│       ├── ✗ iteration_limit  iteration_count = 1, max_iterations = 3
│       └── ✓ tool_calls  tool_count = 1
└── 3. tools  8 ms
    └── data_chat.route_after_tools → the end
        └── ✓ iteration_limit  no facts
"""


def test_every_step_shows_its_calls_the_rules_that_did_not_hold_and_the_one_that_did() -> None:
    shown = to_text(explanation(run(), decisions()), width=140)
    assert "\n".join(line.rstrip() for line in shown.splitlines()) + "\n" == EXPECTED


def test_a_run_that_was_rolled_back_says_by_which_and_what_stays() -> None:
    undone = run()
    undone.rolled_back_by, undone.spend.tool_calls = "0199a0c0-later", 2
    shown = to_text(explanation(undone, []), width=200)
    assert "rolled back by 0199a0c0-later" in shown
    assert "what its 2 tool calls did is not undone" in shown


def test_a_run_without_decisions_says_so() -> None:
    shown = to_text(explanation(run(), []))
    assert RUN_ID in shown
    assert "no decisions yet" in shown


def test_a_policy_that_changed_under_way_is_visible() -> None:
    first, second, third = decisions()
    second.policy_version = "deadbeef"
    assert "policy 39527fab, deadbeef" in to_text(explanation(run(), [first, second, third]), width=200)


def test_what_a_run_was_fed_cannot_speak_to_the_terminal() -> None:
    hostile = decisions()[:1]
    hostile[0].grounds.CopyFrom(struct(error="\x1b]0;owned\x07 [bold red]x[/] \u202eabc"))
    given = run()
    given.input.data_chat.question = "a\x1b[2Jb\r\n\x9b31mc"
    shown = to_text(explanation(given, hostile), width=200)
    assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(shown)
    assert "[bold red]x[/]" in shown
    assert "\\x1b]0;owned\\x07" in shown


def test_a_node_that_no_router_follows_is_a_step_too() -> None:
    call = runs_pb2.NodeCall(kind="model", name="wording", outcome="ok", elapsed_ms=3)
    last = runs_pb2.NodeCompleted(node="format_answer", elapsed_ms=4, calls=[call])
    shown = to_text(explanation(run(), [*decisions(), last]), width=140)
    assert f"{len(decisions()) + 1}. format_answer  4 ms" in shown
    assert "model wording ok" in shown
    assert OFFLINE_RULES not in shown


def test_a_call_that_rules_answered_says_so() -> None:
    call = runs_pb2.NodeCall(kind="model", name="any-name", outcome="ok", elapsed_ms=3, offline_rules=True)
    last = runs_pb2.NodeCompleted(node="format_answer", elapsed_ms=4, calls=[call])
    assert f"model any-name ok  3 ms, {OFFLINE_RULES}" in to_text(explanation(run(), [*decisions(), last]), width=140)


def test_the_prompts_of_a_service_that_asked_a_model_are_told_and_those_of_the_run_only_where_they_are_others() -> None:
    given = run()
    given.policy.prompts = "own"
    calls = [
        runs_pb2.NodeCall(kind="model", service=service, name=f"of-{service}-{digest}", outcome="ok", prompts=digest)
        for service, digest in (("model", "own"), ("model", "others"), ("guard", "its"), ("guard", ""))
    ]
    shown = to_text(explanation(given, [runs_pb2.NodeCompleted(node="answer", calls=calls)]), width=140)
    told = [line.partition(" ok  ")[2].strip() for line in shown.splitlines() if "of-" in line]
    assert [each.partition(", ")[2] for each in told] == [
        "", "at a replica with prompts others", "asked with the guard's prompts its", "",
    ]  # fmt: skip


def test_a_run_that_waits_says_for_what_and_until_when() -> None:
    waiting = run()
    waiting.state, waiting.waiting_for = runs_pb2.RUN_STATE_PENDING, "sql_executor"
    waiting.retry_time.FromJsonString("2026-01-02T03:04:05Z")
    shown = to_text(explanation(waiting, []), width=140)
    assert f"waiting for the sql_executor, which is away; tried again at {moment(waiting.retry_time)}" in shown


def test_a_wait_that_is_over_stands_in_its_step() -> None:
    step = decisions()[0]
    step.calls.add(kind="wait", name="guard", outcome="UNAVAILABLE", elapsed_ms=17_000)
    assert "wait guard UNAVAILABLE  17.00 s" in to_text(explanation(run(), [step]), width=140)


def test_the_event_of_a_wait_is_told_as_it_happens() -> None:
    changed = runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_PENDING, waiting_for="guard", cause="UNAVAILABLE")
    event = runs_pb2.RunEvent(state_changed=changed)
    told = "waiting for the guard, which is away (UNAVAILABLE)"
    assert (now_doing(event), what_happened(event)) == (told, told)
    changed.Clear()
    changed.state = runs_pb2.RUN_STATE_AWAITING_INPUT
    assert what_happened(runs_pb2.RunEvent(state_changed=changed)) == "awaiting input"


def rule(name: str, condition: str, missed_by: str = "") -> runs_pb2.RuleExplanation:
    """A rule in words."""
    return runs_pb2.RuleExplanation(rule=name, condition=condition, missed_by=missed_by)


TOLD = {
    2: runs_pb2.DecisionExplanation(
        sequence=2,
        rules=[
            rule("already_answered", "already_answered", "already_answered is no"),
            rule("iteration_limit", "iteration_count >= max_iterations (3)", "1 of 3 iterations"),
            rule("tool_calls", "tool_count > 0"),
        ],
        alternatives=[
            runs_pb2.Alternative(change=f"{name} 1 instead of 3", is_limit=True, rule="limit", destination="__end__")
            for name in ("max_iterations", "max_b", "max_c", "max_d")
        ],
    )
}
EXPECTED_TOLD = """\
    └── data_chat.route_after_agent → tools
        ├── ✗ already_answered  already_answered: already_answered is no
        ├── ✗ iteration_limit  iteration_count >= max_iterations (3): 1 of 3 iterations
        ├── ✓ tool_calls  tool_count > 0: tool_count = 1
        ├── ? limit → the end  with max_iterations 1 instead of 3
        ├── ? limit → the end  with max_b 1 instead of 3
        └── ? limit → the end  with max_c 1 instead of 3
"""


def test_rules_that_are_told_say_by_how_much_they_were_missed_and_what_would_have_led_elsewhere() -> None:
    shown = to_text(explanation(run(), decisions()[1:2], TOLD), width=140)
    assert (
        "\n".join(line.rstrip() for line in shown.splitlines()) + "\n"
        == shown[: shown.index("    └── ")] + EXPECTED_TOLD
    )


def test_what_is_told_cannot_speak_to_the_terminal() -> None:
    told = runs_pb2.DecisionExplanation()
    told.CopyFrom(TOLD[2])
    told.rules[1].missed_by = told.rules[2].condition = told.alternatives[0].change = "\x1b]0;owned\x07 \u202eabc"
    shown = to_text(explanation(run(), decisions()[1:2], {2: told}), width=200)
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert shown.count("owned") == 3
