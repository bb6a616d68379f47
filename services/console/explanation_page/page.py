"""A run and why it went as it did, as one HTML page that asks nothing of anybody.

What comes from a run is text: Jinja escapes it in markup, `tojson` in the data for the script; and a policy in the page
itself lets no script run, no style apply and nothing be fetched but what was written here.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from markupsafe import Markup
from signalbox.v1 import hosted_pb2, runs_pb2, threads_pb2

from services.console.explained import Explained
from services.console.explanation_page.decision_data import page_data
from services.console.explanation_page.result import Result, result_of, state_blocks
from services.console.explanation_page.route_drawing import RouteDrawing, route_drawing
from services.console.explanation_page.timeline import timeline
from services.console.explanation_page.traffic import with_passages
from services.console.message_words import words_of
from services.console.templating import rendered
from services.kit.models.offline_rules import OFFLINE_RULES
from services.kit.text.moods import mood
from services.kit.text.words import fact, limit_text, origin_name

TEMPLATE = "explanation.html.j2"
_BY_TABLE = (hosted_pb2.DECIDED_BY_TABLE, hosted_pb2.DECIDED_BY_LIFTED)
ALTERNATIVES = 5
_CAUSES = {
    runs_pb2.CLAIM_CAUSE_BEGIN: "began it",
    runs_pb2.CLAIM_CAUSE_ANSWER: "went on with the answer",
    runs_pb2.CLAIM_CAUSE_WAIT: "tried again",
    runs_pb2.CLAIM_CAUSE_TAKEOVER: "took it over from a replica that was gone",
}


@dataclass(frozen=True)
class RuleRow:
    """A rule as a decision's table shows it; `mark` is `held`, `missed`, or `later` for one that was not tried."""

    mark: str
    rule: str
    condition: str
    why: str


def render_page(explained: Explained) -> str:
    """Returns the page's HTML."""
    return rendered(
        TEMPLATE,
        **shown(explained),
        has_console=False,
        policy=_policy(),
        style=_source("page.css"),
        scripts=[_source("evaluate.js"), _source("page.js")],
    )


def shown(explained: Explained) -> dict[str, Any]:
    """Returns what the template `explained_run.html.j2` shows."""
    run, story = explained.run, explained.story
    return {
        "run": run,
        "story": story,
        "mood": mood(run),
        "decided_by": OFFLINE_RULES if any(call.offline_rules for call in _calls(explained)) else "",
        "asked": words_of(getattr(run.input, run.input.WhichOneof("agent") or "data_chat")),
        "result": result_of(run),
        "drawing": drawn(explained),
        "timeline": timeline(run, story),
        "decisions": _decisions(explained),
        "by_rule": _by_rule(story),
        "limits": [(limit.name, limit_text(limit.value), origin_name(limit.origin)) for limit in run.policy.limits],
        "data": page_data(story, explained.decisions),
        "has_tables": any(node.rules for node in story.agent.nodes),
        "causes": _CAUSES,
    }


def _calls(explained: Explained) -> Iterator[runs_pb2.NodeCall]:
    for step in explained.story.route:
        yield from step.calls
    for decision in explained.decisions:
        yield from decision.calls


def drawn(explained: Explained) -> RouteDrawing:
    """Returns the agent's graph with the run's route."""
    # Where nothing was counted, nothing is known of what went on either.
    traffic = with_passages(explained.story.agent, explained.traffic) if explained.traffic else {}
    return route_drawing(explained.run, explained.story, traffic)


@cache
def _source(name: str) -> Markup:
    """Returns a file of ours, which is no text of anybody else's."""
    return Markup(files(__package__).joinpath(name).read_text("utf-8"))  # noqa: S704


@cache
def _policy() -> str:
    """Lets the page's own script and style run, known by their digests, and nothing else in or out."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    scripts = " ".join(digest(f"\n{_source(name)}") for name in ("evaluate.js", "page.js"))
    style = digest(f"\n{_source('page.css')}")
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing}; script-src {scripts}; style-src {style}; img-src data:"


def _decisions(explained: Explained) -> list[dict[str, Any]]:
    charges = {each.sequence: each for each in explained.story.charges}
    caused: dict[int, list[runs_pb2.RouteStep]] = defaultdict(list)
    for step in explained.story.route:
        caused[step.led_by].append(step)
    return [
        _decision(
            decision,
            explained.told.get(decision.sequence, runs_pb2.DecisionExplanation()),
            charges.get(decision.sequence, runs_pb2.Charge()),
            caused.get(decision.sequence, []),
            explained.states.get(decision.checkpoint_id),
        )
        for decision in explained.decisions
    ]


def _decision(
    decision: runs_pb2.Decision,
    told: runs_pb2.DecisionExplanation,
    charge: runs_pb2.Charge,
    caused: Sequence[runs_pb2.RouteStep],
    state: threads_pb2.ThreadState | None,
) -> dict[str, Any]:
    return {
        "decision": decision,
        "rules": _rules(decision, told),
        "is_told": bool(told.rules),
        "alternatives": told.alternatives[:ALTERNATIVES],
        "charge": charge,
        "caused": caused,
        "facts": sorted(MessageToDict(decision.facts).items()),
        "state": Result(state_blocks(MessageToDict(state.values))) if state else None,
    }


def _rules(decision: runs_pb2.Decision, told: runs_pb2.DecisionExplanation) -> list[RuleRow]:
    """Returns the rules of a decision's table; of one that is not told, what was tried and what it read."""
    if decision.HasField("code") and decision.decided_by not in _BY_TABLE:
        code = decision.code
        tests = [RuleRow("held" if each.held else "missed", f"line {each.line}", each.test, "") for each in code.tests]
        why = "; ".join(filter(None, (_read(decision.facts), code.remark, code.source)))
        return [*tests, RuleRow("held", decision.rule, code.returned, why)]
    if not told.rules:
        tried = [RuleRow("missed", each.rule, "", _read(each.grounds)) for each in decision.rejected_rules]
        return [*tried, RuleRow("held", decision.rule, "", _read(decision.grounds))]
    *missed, held = told.rules
    return [
        *(RuleRow("missed", each.rule, each.condition, each.missed_by) for each in missed),
        RuleRow("held", held.rule, held.condition, _read(decision.grounds)),
        *(
            RuleRow("later", each.rule, each.condition, each.missed_by or "would have held")
            for each in told.later_rules
        ),
    ]


def _read(grounds: Struct) -> str:
    return ", ".join(f"{name} = {fact(value)}" for name, value in sorted(MessageToDict(grounds).items()))


def _by_rule(story: runs_pb2.RunExplanation) -> list[dict[str, Any]]:
    """Returns what each rule was charged, the most first, with its part of all."""
    totals: dict[tuple[str, str], dict[str, Any]] = defaultdict(
        lambda: {"count": 0, "tokens": 0, "ms": 0.0, "nodes_ms": 0.0}
    )
    for charge in story.charges:
        total = totals[charge.router, charge.rule]
        total["count"] += 1
        total["tokens"] += charge.spend.token_usage.total_tokens
        total["ms"] += charge.elapsed_ms
        total["nodes_ms"] += charge.spend.wall_time_s * 1000
    tokens, ms = story.spend.token_usage.total_tokens or 1, story.elapsed_ms or 1
    rows = [
        {
            "router": router,
            "rule": rule,
            **total,
            "token_share": max(0.0, min(1.0, total["tokens"] / tokens)),
            "time_share": max(0.0, min(1.0, total["ms"] / ms)),
        }
        for (router, rule), total in totals.items()
    ]
    return sorted(rows, key=lambda row: (-row["ms"], row["rule"]))
