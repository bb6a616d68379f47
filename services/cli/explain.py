"""Why a run went where it went: its decisions as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from google.protobuf.struct_pb2 import Struct
from rich.text import Text
from rich.tree import Tree
from signalbox.v1 import caller_pb2, hosted_pb2, policy_pb2, runs_pb2

from services.cli.agents import limits_of
from services.cli.client import Step
from services.cli.render import begun_from, rolled_back, state_text
from services.kit.models.offline_rules import OFFLINE_RULES
from services.kit.text.printing import printable
from services.kit.text.words import DEFAULT, duration, elapsed, grounds, moment, shown_labels, tokens

END = "__end__"
# Of what would have led elsewhere; the smallest changes come first.
ALTERNATIVES = 3
# Rules by which a hosted graph's run ends that are none of its code's.
_BY_TABLE = (hosted_pb2.DECIDED_BY_TABLE, hosted_pb2.DECIDED_BY_LIFTED)
_STOPPED = frozenset(("node_failed", "budget_exhausted", "run_cancelled"))
# Where a hosted graph's own tools run: a replica that dies in one has another run it again.
IN_PROCESS = "in_process"
_NOTHING: Mapping[int, runs_pb2.DecisionExplanation] = {}
# Of a call, and of a screening by the guard.
GOOD_OUTCOMES = frozenset(("ok", "allowed"))


def explanation(
    run: runs_pb2.Run, steps: Sequence[Step], told: Mapping[int, runs_pb2.DecisionExplanation] = _NOTHING
) -> Tree:
    """One branch per step: the node, its calls, the rules that did not hold and the one that did, and what would have.

    Decisions that are `told` say what each rule asks for and by how much it was missed; others the values it read.
    """
    decisions = [step for step in steps if isinstance(step, runs_pb2.Decision)]
    spent = tokens(run.spend.token_usage)
    head = Text.assemble((printable(run.agent), "bold"), f"  {printable(run.run_id)}  ", state_text(run))
    head.append(f"  {elapsed(run)}, {spent}, policy {policy_versions(decisions)}", style="dim")
    tree = Tree(head, guide_style="dim")
    question = run.input.data_chat.question
    if question:
        tree.add(Text(f"“{printable(question)}” asked by {printable(run.caller.subject)}", style="italic"))
    if run.HasField("forked_from"):
        tree.add(Text(begun_from(run.forked_from), style="dim"))
    if said := rolled_back(run):
        tree.add(Text(f"rolled back {said}", style="yellow"))
    for number, step in enumerate(steps, start=1):
        _add_step(tree, number, step, told, run.policy.prompts)
    if run.labels:
        tree.add(Text.assemble(("labels ", "dim"), printable(shown_labels(run.labels))))
    if run.waiting_for:
        waits = f"waiting for the {printable(run.waiting_for)}, which is away; tried again at {moment(run.retry_time)}"
        tree.add(Text(waits, style="yellow"))
    if not steps:
        tree.add(Text("no decisions yet", style="dim"))
    if run.HasField("policy"):
        _add_limits(tree, run.policy)
    return tree


def _add_limits(tree: Tree, policy: policy_pb2.Policy) -> None:
    """The limits that the run is decided by; those that are nobody's choice on one line."""
    prompts = f", prompts {printable(policy.prompts)}" if policy.prompts else ""
    branch = tree.add(
        Text.assemble("limits", (f"  policy {printable(policy.version)}{prompts}, from its first claim on", "dim"))
    )
    chosen = [(name, value, origin) for name, value, origin in limits_of(policy) if origin.plain != DEFAULT]
    for name, value, origin in chosen:
        branch.add(Text.assemble(f"{printable(name)} = {value}  ", origin))
    rest = [f"{printable(name)} = {value}" for name, value, origin in limits_of(policy) if origin.plain == DEFAULT]
    branch.add(Text(f"default: {', '.join(rest)}", style="dim"))


def policy_versions(decisions: Sequence[runs_pb2.Decision]) -> str:
    """The policies that the decisions were made under; more than one when it changed during the run."""
    return ", ".join(dict.fromkeys(printable(decision.policy_version) for decision in decisions)) or "none"


def _add_step(
    tree: Tree, number: int, step: Step, told: Mapping[int, runs_pb2.DecisionExplanation], prompts: str
) -> None:
    elapsed_ms = step.node_elapsed_ms if isinstance(step, runs_pb2.Decision) else step.elapsed_ms
    usage = _sum(call.token_usage for call in step.calls)
    head = Text.assemble(f"{number}. ", (printable(step.node), "bold cyan"))
    head.append(f"  {duration(elapsed_ms)}", style="dim")
    if usage.total_tokens:
        head.append(f", {tokens(usage)}", style="dim")
    branch = tree.add(head)
    for call in step.calls:
        branch.add(_call(call, prompts))
    if isinstance(step, runs_pb2.Decision):
        _add_rules(branch, step, told.get(step.sequence, runs_pb2.DecisionExplanation()))


def _add_rules(step: Tree, decision: runs_pb2.Decision, told: runs_pb2.DecisionExplanation) -> None:
    if decision.HasField("code") and decision.decided_by not in _BY_TABLE:
        _add_code(step, decision)
        return
    rules = {each.rule: each for each in told.rules}
    lifted = decision.decided_by == hosted_pb2.DECIDED_BY_LIFTED
    source = f"  lifted from {printable(decision.code.source)}" if lifted and decision.code.source else ""
    place = (_place(decision.destination), "bold cyan")
    router = step.add(Text.assemble((printable(decision.router), "dim"), " → ", place, (source, "dim")))
    for tried in decision.rejected_rules:
        router.add(
            Text.assemble(
                ("✗ ", "red"), printable(tried.rule), (f"  {_why(tried.grounds, rules.get(tried.rule))}", "dim")
            )
        )
    held = Text.assemble(("✓ ", "green"), (printable(decision.rule), "bold"))
    router.add(held.append(f"  {_why(decision.grounds, rules.get(decision.rule))}"))
    if decision.code.remark:
        router.add(Text(printable(decision.code.remark), style="italic"))
    for other in told.alternatives[:ALTERNATIVES]:
        way = f"{printable(other.rule)} → {_place(other.destination)}"
        router.add(Text.assemble(("? ", "yellow"), way, (f"  with {printable(other.change)}", "dim")))


_MADE_BY = {
    hosted_pb2.DECIDED_BY_CODE: "by its code",
    hosted_pb2.DECIDED_BY_COMMAND: "by a Command of the node",
    hosted_pb2.DECIDED_BY_FAN_OUT: "by packets",
}


def _add_code(step: Tree, decision: runs_pb2.Decision) -> None:
    """How code decided: the tests that it came to, what it returned, and what it had read."""
    code = decision.code
    where = f"  {printable(code.source)}" if code.source else ""
    places = ", ".join(
        _place(each.node) + (f" x {each.count}" if each.count > 1 else "") for each in decision.destinations
    )
    branch = step.add(
        Text.assemble((printable(decision.router), "dim"), " → ", (places, "bold cyan")).append(
            f"  {_MADE_BY.get(decision.decided_by, '')}{where}", style="dim"
        )
    )
    if decision.rule in _STOPPED:
        branch.add(Text.assemble(("✗ ", "red"), (printable(decision.rule), "bold"), f"  {grounds(decision.facts)}"))
        return
    for test in code.tests:
        mark = ("✓ ", "green") if test.held else ("✗ ", "red")
        branch.add(Text.assemble(mark, printable(test.test), (f"  line {test.line}", "dim")))
    if code.returned_at:
        branch.add(Text.assemble(("→ ", "green"), printable(code.returned), (f"  line {code.returned_at}", "dim")))
    if decision.facts.fields:
        branch.add(Text.assemble(("read ", "dim"), grounds(decision.facts)))
    if code.remark:
        branch.add(Text(printable(code.remark), style="italic"))


def _why(read: Struct, told: runs_pb2.RuleExplanation | None) -> str:
    """What a rule asks for, and by how much it was missed or what it read; of one that is not told, what it read."""
    if told is None:
        return grounds(read)
    if told.missed_by:
        return f"{printable(told.condition)}: {printable(told.missed_by)}"
    return f"{printable(told.condition)}: {grounds(read)}" if read.fields else printable(told.condition)


def _place(destination: str) -> str:
    return "the end" if destination == END else printable(destination)


def _call(call: runs_pb2.NodeCall, prompts: str) -> Text:
    good = call.outcome in GOOD_OUTCOMES
    text = Text.assemble((f"{printable(call.kind)} ", "dim"), printable(call.name), " ")
    text.append(printable(call.outcome), style="green" if good else "red")
    text.append(f"  {duration(call.elapsed_ms)}", style="dim")
    if call.token_usage.total_tokens:
        about = "about " if call.estimated_tokens else ""
        text.append(f", {about}{tokens(call.token_usage)}", style="dim")
    if call.service == IN_PROCESS or call.at_least_once:
        text.append(", at least once", style="dim")
    if call.offline_rules:
        text.append(f", {OFFLINE_RULES}", style="yellow")
    if call.prompts and call.service != call.kind:
        text.append(f", asked with the {printable(call.service)}'s prompts {printable(call.prompts)}", style="dim")
    elif call.prompts and prompts and call.prompts != prompts:
        text.append(f", at a replica with prompts {printable(call.prompts)}", style="yellow")
    return text


def _sum(usages: Iterable[caller_pb2.TokenUsage]) -> caller_pb2.TokenUsage:
    total = caller_pb2.TokenUsage()
    for usage in usages:
        total.input_tokens += usage.input_tokens
        total.output_tokens += usage.output_tokens
        total.total_tokens += usage.total_tokens
    return total
