"""What the runtime counts. Decisions are counted where they are recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import Counter, Gauge, Histogram
from signalbox_routing.table import END

from services.kit.outcome import Outcome
from services.kit.telemetry.metrics import DURATION_BUCKETS, from_zero, model_calls_from_zero
from services.kit.telemetry.names import METRIC_PREFIX
from services.runtime.routing.calls import CALLS_BEYOND_BUDGET, MODEL, OK, TOOL
from services.runtime.routing.digest import policy_version
from services.runtime.routing.graph import BEFORE_TABLES, AgentGraph, router_after
from services.runtime.routing.recorder import DECISIONS
from services.runtime.routing.state import COMPLETED, FAILED, NEEDS_REVIEW

RUNS_STARTED = Counter(METRIC_PREFIX + "runs_claimed_total", "Claims of runs, by agent and kind.", ["agent", "kind"])
RUNS_REFUSED = Counter(
    METRIC_PREFIX + "runs_refused_total", "Runs refused because their caller's quota was used up, by quota.", ["quota"]
)
CALLS_SHED = Counter(
    METRIC_PREFIX + "calls_shed_total", "Calls refused because too much work waits already, by what waits.", ["queue"]
)
RUNS_PENDING = Gauge(
    METRIC_PREFIX + "runs_pending",
    "Runs that wait for a replica, by pool, as this one last counted them, up to the bound of the queue.",
    ["pool"],
)
RUNS_PENDING_OLDEST = Gauge(
    METRIC_PREFIX + "runs_pending_oldest_age_seconds",
    "How long the longest-waiting run of a pool has been ready to start on its replicas with room; 0 when none is.",
    ["pool"],
)
RUNS_WAITING_FOR_POOL = Gauge(
    METRIC_PREFIX + "runs_waiting_for_pool",
    "Pending runs of a pool of which no replica has been seen for a while; 0 while one is.",
    ["pool"],
)
QUESTIONS_WAITING = Gauge(
    METRIC_PREFIX + "questions_waiting", "Questions of runs that nobody has answered yet, by agent.", ["agent"]
)
QUESTIONS_OLDEST = Gauge(
    METRIC_PREFIX + "questions_oldest_age_seconds", "How long the oldest of those has been waiting.", ["agent"]
)
QUESTIONS_CLOSED = Counter(
    METRIC_PREFIX + "questions_closed_total",
    "Questions that people answered, by the right they did (caller, role, assignee), or that expired, by agent.",
    ["agent", "outcome"],
)
QUESTIONS_ESCALATED = Counter(
    METRIC_PREFIX + "questions_escalated_total",
    "Questions that expired and were asked again, of a role, by agent.",
    ["agent"],
)
ANSWERS_REFUSED = Counter(METRIC_PREFIX + "answers_refused_total", "Answers that were refused, by reason.", ["reason"])
LOOP_LAG = Histogram(
    METRIC_PREFIX + "event_loop_lag_seconds",
    "How late the event loop came back to a timer.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
RUNS_ENDED = Counter(
    METRIC_PREFIX + "runs_ended_total",
    "Runs that ended, by agent, state and stop reason.",
    ["agent", "state", "stop_reason"],
)
RUN_OUTCOMES = Counter(
    METRIC_PREFIX + "run_outcomes_total",
    "What came of runs that ended for their callers, by agent.",
    ["agent", "outcome"],
)
RUN_DURATION = Histogram(
    METRIC_PREFIX + "run_duration_seconds",
    "Time from creation to the end of a run, by agent and the state that it ended in.",
    ["agent", "state"],
    buckets=(1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
)
BUDGET_USED = Histogram(
    METRIC_PREFIX + "run_budget_used_ratio",
    "Share of a budget's limit that an ended run had used: 1 is all of it. Limits of 0 mean no limit and are left out.",
    ["agent", "budget"],
    buckets=(0.9, 1),
)
AGENT_TOKENS = Counter(
    METRIC_PREFIX + "agent_tokens_total",
    "Tokens of an agent's committed steps, those of the guard and the evaluator included, by direction.",
    ["agent", "direction"],
)
AGENT_COST = Counter(
    METRIC_PREFIX + "agent_cost_total",
    "What those tokens cost by the prices of SIGNALBOX_MODEL_PRICES, in their currency.",
    ["agent"],
)
AGENT_TOKENS_UNPRICED = Counter(
    METRIC_PREFIX + "agent_unpriced_tokens_total", "Those of the tokens whose model has no price.", ["agent"]
)
TOKENS_BY_MODEL = Counter(
    METRIC_PREFIX + "model_spent_tokens_total",
    "The tokens of agents' committed steps by the model that was asked.",
    ["model"],
)
COST_BY_MODEL = Counter(
    METRIC_PREFIX + "model_cost_total",
    "What those tokens cost by the prices of SIGNALBOX_MODEL_PRICES, in their currency.",
    ["model"],
)
RUNS_ACTIVE = Gauge(METRIC_PREFIX + "runs_active", "Runs that this replica executes.")
RUNS_CAPACITY = Gauge(METRIC_PREFIX + "runs_capacity", "Most runs that this replica executes at once.")
CLAIMS_LOST = Counter(
    METRIC_PREFIX + "claims_lost_total", "Writes refused because another replica had claimed the run."
)
RUNS_TAKEN_OVER = Counter(
    METRIC_PREFIX + "runs_taken_over_total", "Runs of dead replicas that were made pending again."
)
RUNS_ORPHANED = Gauge(
    METRIC_PREFIX + "runs_orphaned",
    "Runs without a live owner, as this replica's last sweep found them; more than a moment above 0 is a fault.",
)
RUNS_WAITING = Gauge(
    METRIC_PREFIX + "runs_waiting",
    "Runs that wait for an unavailable dependency, by dependency, as this replica's last sweep found them.",
    ["dependency"],
)
WAITS = Counter(
    METRIC_PREFIX + "run_waits_total",
    "Waits of this replica's runs because a dependency was unavailable, by dependency and cause.",
    ["dependency", "cause"],
)
CIRCUIT_OPEN = Gauge(
    METRIC_PREFIX + "circuit_open",
    "1 while this replica holds back calls of a dependency because it is unavailable.",
    ["dependency"],
)
RUNS_NOT_CARRIED = Gauge(
    METRIC_PREFIX + "runs_not_carried",
    "Pending runs, begun on another graph, that this replica's graphs can't go on with, by agent.",
    ["agent"],
)
CLOCK_SKEW = Gauge(
    METRIC_PREFIX + "clock_skew_seconds", "How far this replica's clock is ahead of the platform database's."
)
RUNS_GIVEN_BACK = Counter(
    METRIC_PREFIX + "runs_given_back_total", "Runs handed over to another replica, by reason.", ["reason"]
)
BACKGROUND_FAILURES = Counter(
    METRIC_PREFIX + "background_failures_total", "Rounds of background work that failed, by work.", ["work"]
)
BACKGROUND_SUCCESS = Gauge(
    METRIC_PREFIX + "background_last_success_timestamp_seconds",
    "When a round of background work last succeeded, by work; initially, when the replica started.",
    ["work"],
)
CHECKPOINT_BYTES = Counter(
    METRIC_PREFIX + "checkpoint_written_bytes_total", "Bytes of checkpoints and writes handed to the database."
)
AGENT_INFO = Gauge(
    METRIC_PREFIX + "agent_info",
    "Always 1; the agents that this replica offers, with the versions of the policy and the prompts that new runs get.",
    ["agent", "policy_version", "prompts"],
)
LIMITS_CHANGED = Gauge(
    METRIC_PREFIX + "limits_changed_timestamp_seconds",
    "When an agent's limits changed last, as the record has it; no series where they have not.",
    ["agent"],
)
TOOL_DURATION = Histogram(
    METRIC_PREFIX + "tool_call_duration_seconds",
    "Duration of tool calls, by tool and outcome.",
    ["tool", "outcome"],
    buckets=DURATION_BUCKETS,
)
WORDINGS = Counter(
    METRIC_PREFIX + "wordings_total",
    "Wordings of results by models, by outcome: ok, or unsupported by what they word, and not shown.",
    ["outcome"],
)
ROWS_REMOVED = Counter(
    METRIC_PREFIX + "retention_rows_removed_total", "Rows that retention removed, by kind.", ["kind"]
)
BYTES_REMOVED = Counter(
    METRIC_PREFIX + "retention_bytes_removed_total", "Bytes, as stored, that retention removed, by kind.", ["kind"]
)
HISTORY_UNREADABLE = Counter(
    METRIC_PREFIX + "retention_unreadable_total",
    "Runs whose older checkpoints retention kept because it could not read them, by agent.",
    ["agent"],
)
PRUNE_LAG = Gauge(
    METRIC_PREFIX + "retention_lag_seconds",
    "How overdue the oldest run was from which the last batch of retention removed something.",
)
ROWS_STORED = Gauge(METRIC_PREFIX + "stored_rows", "Rows in the platform database, as Postgres estimates.", ["table"])
BYTES_STORED = Gauge(
    METRIC_PREFIX + "stored_bytes", "Bytes in the platform database with indexes, by table.", ["table"]
)

# What ends runs of every agent; the rules of its routers are others.
_STOPS = {
    "SUCCEEDED": ("",),
    "FAILED": ("node_failed", "internal_error", "recursion_limit", "graph_stopped", "claim_limit"),
    "CANCELLED": ("cancelled",),
    "NEEDS_REVIEW": ("input_expired",),
}
_STATE_OF: dict[str, str] = {COMPLETED: "SUCCEEDED", FAILED: "FAILED", NEEDS_REVIEW: "NEEDS_REVIEW"}
_BUDGETS = ("model_calls", "tool_calls", "tokens", "wall_time_s")
# Work that a replica has to get done again and again to be of use.
_WORKS = ("claim", "sweep", "count", "renew_leases", "liveness", "prune")

model_calls_from_zero("agent", "format_answer", "triage", "research", "analysis", "parse_goal", "plan_step", "answer")
from_zero(RUNS_REFUSED, ["at_once", "per_minute", "tokens_per_day", "waiting"])
from_zero(CALLS_SHED, ["calls", "runs"])
from_zero(WORDINGS, [OK, "unsupported"])
from_zero(CALLS_BEYOND_BUDGET, [TOOL], ["tool_calls", "wall_time_s"])
from_zero(CALLS_BEYOND_BUDGET, [MODEL], ["model_calls", "tokens", "wall_time_s"])
from_zero(RUNS_GIVEN_BACK, ["handed_over", "interrupted", "database_away"])
from_zero(
    BACKGROUND_FAILURES,
    [
        *_WORKS,
        "look_for_begun_runs",
        "watches",
        "token_chunks",
        "add_tokens",
        "leave",
        "hand_over",
        "renew_connections",
        "forget_gone",
        "listen",
        "make_partitions",
        "record_limits",
    ],
)


def begin_works() -> None:
    """Takes this moment for that of the last success of what has yet to be tried."""
    for work in _WORKS:
        BACKGROUND_SUCCESS.labels(work).set_to_current_time()


def watch_dependency(dependency: str) -> None:
    """Makes the series of something that may be away, with the causes that most of that has."""
    CIRCUIT_OPEN.labels(dependency).set(0)
    from_zero(RUNS_WAITING, [dependency])
    causes = ["connection", "timeout"] if dependency.startswith("model ") else ["UNAVAILABLE", "DEADLINE_EXCEEDED"]
    from_zero(WAITS, [dependency], causes)


def tell_versions(offered: Iterable[tuple[AgentGraph, str]]) -> None:
    """Says of each agent which version of its policy and of its prompts new runs get."""
    for graph, prompts in offered:
        for version in {policy_version(router.policy) for router in graph.routers}:
            AGENT_INFO.labels(graph.name, version, prompts).set(1)


def count_from_zero(offered: Iterable[tuple[AgentGraph, Sequence[Outcome]]]) -> None:
    """Makes the series of the agents that this runtime offers, and of every decision that their tables can make."""
    agents = list(offered)
    names = [graph.name for graph, _ in agents]
    for graph, outcomes in agents:
        from_zero(TOOL_DURATION, graph.tools, [OK])
        for node in graph.nodes:
            from_zero(DECISIONS, [graph.name], [router_after(graph.name, node)], BEFORE_TABLES, [END])
        for router in graph.routers:
            for rule in router.rules:
                from_zero(DECISIONS, [graph.name], [router.name], [rule.name], rule.destinations)
        _count_ends(graph, outcomes)
    from_zero(RUNS_NOT_CARRIED, names)
    from_zero(RUNS_STARTED, names, ["created", "queued", "taken_over"])
    # Those that alerts look at; how often runs end otherwise is counted by reason.
    from_zero(RUN_DURATION, names, ["SUCCEEDED", "FAILED"])
    from_zero(BUDGET_USED, names, _BUDGETS)
    from_zero(AGENT_TOKENS, names, ["input", "output"])
    from_zero(AGENT_COST, names)
    from_zero(AGENT_TOKENS_UNPRICED, names)
    from_zero(QUESTIONS_WAITING, names)
    from_zero(QUESTIONS_OLDEST, names)
    from_zero(QUESTIONS_ESCALATED, names)
    from_zero(HISTORY_UNREADABLE, names)


def _count_ends(graph: AgentGraph, outcomes: Sequence[Outcome]) -> None:
    """Makes the series of the ends that runs of an agent can come to, those that its breakers bring included."""
    for state, stops in _STOPS.items():
        from_zero(RUNS_ENDED, [graph.name], [state], stops)
    last = {END, *(node.name for node in graph.nodes if node.router is None and node.then == END)}
    for rule in (rule for router in graph.routers for rule in router.rules):
        state_of_rule = _STATE_OF.get(str(rule.update.get("status")))
        if reason := rule.update.get("stop_reason"):
            from_zero(RUNS_ENDED, [graph.name], [state_of_rule] if state_of_rule else _STATE_OF.values(), [reason])
        elif state_of_rule is None and last.intersection(rule.destinations):
            # A run that is left to a person by a rule that gives no reason names the rule.
            from_zero(RUNS_ENDED, [graph.name], ["NEEDS_REVIEW"], [rule.name])
    from_zero(RUN_OUTCOMES, [graph.name], [*outcomes, Outcome.UNFINISHED, Outcome.CANCELLED])


def show_budget_used(agent: str, spend: Mapping[str, Any], budget: Mapping[str, Any]) -> None:
    """Counts what an ended run had used of each limit of its budget."""
    used = {**spend, "tokens": spend["input_tokens"] + spend["output_tokens"]}
    for limit in _BUDGETS:
        if budget.get(limit):
            BUDGET_USED.labels(agent, limit).observe(used[limit] / budget[limit])
