"""Why a run went where it went: its decisions as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text
from rich.tree import Tree
from signalbox.v1 import caller_pb2, runs_pb2

from services.cli.client import Step
from services.cli.render import state_text
from services.cli.words import duration, elapsed, grounds, printable, tokens

END = "__end__"
# Of a call, and of a screening by the guard.
GOOD_OUTCOMES = frozenset(("ok", "allowed"))


def explanation(run: runs_pb2.Run, steps: Sequence[Step]) -> Tree:
    """One branch per step: the node, its calls, the rules that did not hold and the one that did, with grounds."""
    decisions = [step for step in steps if isinstance(step, runs_pb2.Decision)]
    spent = tokens(run.spend.token_usage)
    head = Text.assemble((printable(run.agent), "bold"), f"  {printable(run.run_id)}  ", state_text(run))
    head.append(f"  {elapsed(run)}, {spent}, policy {policy_versions(decisions)}", style="dim")
    tree = Tree(head, guide_style="dim")
    question = run.input.data_chat.question
    if question:
        tree.add(Text(f"“{printable(question)}” asked by {printable(run.caller.subject)}", style="italic"))
    for number, step in enumerate(steps, start=1):
        _add_step(tree, number, step)
    if not steps:
        tree.add(Text("no decision yet", style="dim"))
    return tree


def policy_versions(decisions: Sequence[runs_pb2.Decision]) -> str:
    """The policies that the decisions were made under; more than one when it changed during the run."""
    return ", ".join(dict.fromkeys(printable(decision.policy_version) for decision in decisions)) or "none"


def _add_step(tree: Tree, number: int, step: Step) -> None:
    elapsed_ms = step.node_elapsed_ms if isinstance(step, runs_pb2.Decision) else step.elapsed_ms
    usage = _sum(call.token_usage for call in step.calls)
    head = Text.assemble(f"{number}. ", (printable(step.node), "bold cyan"))
    head.append(f"  {duration(elapsed_ms)}", style="dim")
    if usage.total_tokens:
        head.append(f", {tokens(usage)}", style="dim")
    branch = tree.add(head)
    for call in step.calls:
        branch.add(_call(call))
    if isinstance(step, runs_pb2.Decision):
        _add_rules(branch, step)


def _add_rules(step: Tree, decision: runs_pb2.Decision) -> None:
    destination = "the end" if decision.destination == END else printable(decision.destination)
    router = step.add(Text.assemble((printable(decision.router), "dim"), " → ", (destination, "bold cyan")))
    for tried in decision.rejected_rules:
        router.add(Text.assemble(("✗ ", "red"), printable(tried.rule), (f"  {grounds(tried.grounds)}", "dim")))
    held = Text.assemble(("✓ ", "green"), (printable(decision.rule), "bold"))
    router.add(held.append(f"  {grounds(decision.grounds)}"))


def _call(call: runs_pb2.NodeCall) -> Text:
    good = call.outcome in GOOD_OUTCOMES
    text = Text.assemble((f"{printable(call.kind)} ", "dim"), printable(call.name), " ")
    text.append(printable(call.outcome), style="green" if good else "red")
    text.append(f"  {duration(call.elapsed_ms)}", style="dim")
    if call.token_usage.total_tokens:
        text.append(f", {tokens(call.token_usage)}", style="dim")
    return text


def _sum(usages: Iterable[caller_pb2.TokenUsage]) -> caller_pb2.TokenUsage:
    total = caller_pb2.TokenUsage()
    for usage in usages:
        total.input_tokens += usage.input_tokens
        total.output_tokens += usage.output_tokens
        total.total_tokens += usage.total_tokens
    return total
