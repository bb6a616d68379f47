"""What is true of a run as a whole, for a terminal: its charges, and what it came near, waited for and asked."""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree
from signalbox.v1 import costs_pb2, runs_pb2

from services.kit.text.printing import printable
from services.kit.text.words import duration, moment, money, number, tokens

NEAREST = 4


def story(told: runs_pb2.RunExplanation) -> Tree:
    """One branch for each of these that the run has."""
    tree = Tree(Text("the run as a whole", style="bold"), guide_style="dim")
    _add_charges(tree.add(Text("cost by rule")), told)
    near = [each for each in told.breakers if each.HasField("used") or each.fired][:NEAREST]
    if near:
        branch = tree.add(Text("how close it came to its limits"))
        for each in near:
            branch.add(_breaker(each))
    for asked in told.questions:
        tree.add(_question(asked))
    for wait in told.waits:
        until = f" to {moment(wait.end_time)}" if wait.HasField("end_time") else ""
        said = f"waited for the {printable(wait.dependency)} from {moment(wait.begin_time)}{until}"
        tree.add(Text.assemble((said, "yellow"), (f"  {printable(wait.cause)}", "dim")))
    for claim in told.claims:
        if claim.cause == runs_pb2.CLAIM_CAUSE_TAKEOVER:
            said = f"taken over at {moment(claim.claim_time)}, after decision {claim.after_sequence}"
            tree.add(Text(said, style="yellow"))
    return tree


def _add_charges(branch: Tree, told: runs_pb2.RunExplanation) -> None:
    for charge in told.charges:
        name = Text(printable(charge.rule), style="bold") if charge.rule else Text("before the first decision")
        spent = f"{number(float(charge.spend.token_usage.total_tokens))} tokens, {duration(charge.elapsed_ms)}"
        nodes = f"  → {', '.join(map(printable, charge.nodes))}" if charge.nodes else ""
        before = f"{charge.sequence}. " if charge.rule else ""
        branch.add(Text.assemble((before, "dim"), name, f"  {spent}", (nodes, "dim")))
    total = f"{number(float(told.spend.token_usage.total_tokens))} tokens, {duration(told.elapsed_ms)}"
    branch.add(Text(f"the run: {total}", style="dim"))
    for each in told.costs.models:
        branch.add(_model(each, told.costs.currency))


def _model(each: costs_pb2.ModelCost, currency: str) -> Text:
    cached = f", {each.cached_tokens:,} of the input cached" if each.cached_tokens else ""
    cost = money(each.cost, currency) if each.HasField("cost") else "no price"
    return Text.assemble(f"{printable(each.model)}  {tokens(each.token_usage)}{cached}  ", (cost, "dim"))


def _breaker(each: runs_pb2.Breaker) -> Text:
    name = printable(each.rule) if each.router else f"budget of {printable(each.rule).replace('_', ' ')}"
    at = f", at decision {each.sequence}" if each.sequence else ""
    said = "fired" if each.fired else printable(each.missed_by) or "used up"
    return Text.assemble((name, "red" if each.fired else ""), (f"  {said}{at}", "dim"))


def _question(asked: runs_pb2.AskedQuestion) -> Text:
    if not asked.HasField("answer_time"):
        said = f"open for {duration(asked.asked_ms)}"
    else:
        by = f"answered by {printable(asked.answered_by)}" if asked.answered_by else "closed"
        role = f", who is {printable(asked.role)}," if asked.role else ""
        said = f"{by}{role} after {duration(asked.asked_ms)}"
    return Text.assemble("asked ", (f"“{printable(asked.question)}”", "italic"), (f"  {said}", "dim"))
