"""Overview: do runs end well and in time, is there room for more, and what does it cost?"""

from __future__ import annotations

from charts.dashboards.panels import Board, Kind, Link, Panel, Query, Row, Width
from charts.dashboards.promql import by_service, quantile, rate, series, share, total
from services.kit.outcome import REACHED

ENDED = total("agent", rate("run_duration_seconds_count"))
SUCCEEDED = total("agent", rate("run_outcomes_total", f'outcome=~"{"|".join(sorted(REACHED))}"'))
ENDED_BY_OUTCOME = total("agent", rate("run_outcomes_total"))
FAILED = total("agent", rate("run_duration_seconds_count", 'state="FAILED"'))


def _by_prompts(name: str) -> str:
    """Returns what is counted of agents by the version of the prompts that the replica has which counted it."""
    versions = f"max by (instance, agent, prompts) ({series('agent_info')})"
    counted = total("instance, agent", rate(name))
    return f"sum by (agent, prompts) ({counted} * on (instance, agent) group_left (prompts) {versions})"


PENDING = Link("Runs that wait", "/runs", where={"state": "PENDING"}, within_time=False)

OUTCOMES = Row(
    "Outcomes",
    [
        Panel(
            "Runs that end, by outcome",
            "Runs a second that ended, by what came of them for their callers; none is what an earlier release ended.",
            "blocked or not_answered rises, or answered falls while callers ask as much as before.",
            [Query(total("outcome", rate("run_outcomes_total")), "{{outcome}}")],
            "runps",
            link=Link("Runs with this outcome", "/runs", by={"outcome": "outcome"}),
        ),
        Panel(
            "Share of runs that bring what was asked",
            "Of the runs that end, those answered, done, previewed, with a cause found or with a verdict, by agent.",
            "it falls below what it was before a change of models, prompts or policies.",
            [Query(share(SUCCEEDED, ENDED_BY_OUTCOME), "{{agent}}")],
            "percentunit",
            link=Link("Runs of this agent", "/runs", by={"agent": "agent"}),
        ),
        Panel(
            "Share of runs that fail",
            "Of the runs that end, those that FAILED, by agent. Runs that a rule or a budget ends are not among them.",
            "it stays above what the alerts' goal allows (metrics.rules.goals.success in the chart's values).",
            [Query(share(FAILED, ENDED), "{{agent}}")],
            "percentunit",
            link=Link("Runs of this agent that failed", "/runs", by={"agent": "agent"}, where={"state": "FAILED"}),
        ),
        Panel(
            "What ended runs",
            "Runs a second by stop reason: rules that ended them, and failures. Successes without one are left out.",
            "a reason appears that was not there yesterday. docs/operations.md says what each means.",
            [
                Query(
                    total("agent, stop_reason", rate("runs_ended_total", 'stop_reason!=""')),
                    "{{agent}}: {{stop_reason}}",
                )
            ],
            "runps",
            link=Link("Runs in which this rule fired", "/runs", by={"agent": "agent", "rule": "stop_reason"}),
        ),
        Panel(
            "Time from creation to end",
            "The median and the 95th percentile of runs, waiting for a replica or a person included. "
            "The dots are runs: each leads to its page in the console, and to its trace.",
            "the 95th percentile leaves the goal (metrics.rules.goals.latencyS) for longer than a rollout takes.",
            [
                Query(quantile(0.5, "agent", "run_duration_seconds"), "{{agent}} median"),
                Query(quantile(0.95, "agent", "run_duration_seconds"), "{{agent}} 95%", traced=True),
            ],
            "s",
            link=Link("Runs of this agent", "/runs", by={"agent": "agent"}),
        ),
    ],
)

SATURATION = Row(
    "Saturation",
    [
        Panel(
            "Runs executed, and room for them",
            "Runs that all replicas execute now, and how many they would at most.",
            "the first stays near the second: more replicas, or more CPU for those there are.",
            [
                Query(f"sum({series('runs_active')})", "executed"),
                Query(f"sum({series('runs_capacity')})", "room"),
            ],
        ),
        Panel(
            "Runs that wait for a replica",
            "Pending runs by pool, as the replicas count them up to their bound.",
            "it grows: the replicas carry less than is asked for.",
            [Query(f"max by (pool) ({series('runs_pending')})", "{{pool}}")],
            width=Width.QUARTER,
            link=PENDING,
        ),
        Panel(
            "Oldest run that could begin",
            "How long the first of each pool's pending runs has waited for a replica with room. "
            "Runs that wait for their thread, for an answer or for what is away do not count.",
            "it is more than seconds: this is what callers feel, and what KEDA scales by.",
            [Query(f"max by (pool) ({series('runs_pending_oldest_age_seconds')})", "{{pool}}")],
            "s",
            Width.QUARTER,
            link=PENDING,
        ),
        Panel(
            "Waits for something that is away",
            "Runs that wait, by what they wait for.",
            "it is above 0 for more than a moment: that is an outage of what it names.",
            [
                Query(f"max by (dependency) ({series('runs_waiting')})", "{{dependency}}"),
                Query(f"max by (pool) ({series('runs_waiting_for_pool')})", "pool {{pool}}"),
            ],
            link=PENDING,
        ),
        Panel(
            "Calls and runs refused",
            "Refused a second: for want of room (`calls`, `runs`), and for a caller's quota.",
            "it is above 0 without a caller who misbehaves.",
            [
                Query(total("queue", rate("calls_shed_total")), "no room for {{queue}}"),
                Query(total("quota", rate("runs_refused_total")), "quota {{quota}}"),
                Query(total("quota", rate("gateway_quota_refusals_total")), "gateway quota {{quota}}"),
            ],
        ),
        Panel(
            "Event loop lag",
            "How late replicas of the runtime come back to what is due: the 99th percentile by replica.",
            "it is above 0.25 s: the replica has too little CPU for the runs it takes.",
            [Query(quantile(0.99, "instance", "event_loop_lag_seconds"), "{{instance}}")],
            "s",
        ),
        Panel(
            "Database connections in use",
            "Of the connections that a pool may open, those that are lent.",
            "it stays at 1 while somebody waits: a larger pool, or a database that answers slowly.",
            [
                Query(
                    by_service("pool", series("database_connections_in_use"))
                    + " / "
                    + by_service("pool", series("database_connections_max")),
                    "{{service}} {{pool}}",
                )
            ],
            "percentunit",
            Width.QUARTER,
        ),
        Panel(
            "Waits for a connection",
            "Calls that wait for a connection of a pool now, and how many connections are open.",
            "somebody waits for more than a moment.",
            [
                Query(by_service("pool", series("database_connection_waits")), "{{service}} {{pool}} waiting"),
                Query(by_service("pool", series("database_connections")), "{{service}} {{pool}} open"),
            ],
            width=Width.QUARTER,
        ),
    ],
)

HTTP = Row(
    "HTTP for LangGraph's SDKs",
    [
        Panel(
            "Requests, by status",
            "Requests a second that replicas of the HTTP API answered, by status; empty where it is not deployed.",
            "statuses of 500 and above come for more than a moment, 501 aside: that is a client who asks for what "
            "is not offered.",
            [Query(total("status", rate("http_api_request_duration_seconds_count")), "{{status}}")],
            "reqps",
            Width.QUARTER,
        ),
        Panel(
            "Time until an answer begins",
            "The 95th percentile by operation; of streams, until their first event.",
            "it stays above a second while the gateway's own calls are fast.",
            [Query(quantile(0.95, "operation", "http_api_request_duration_seconds"), "{{operation}}")],
            "s",
            Width.QUARTER,
        ),
        Panel(
            "Open streams",
            "Streams and waits that are open now, and events a second that they tell.",
            "it nears the bound of a replica (SIGNALBOX_MAX_STREAMS) times the number of replicas.",
            [
                Query(f"sum({series('http_api_open_streams')})", "open"),
                Query(f"sum({rate('http_api_events_sent_total')})", "events"),
            ],
            width=Width.QUARTER,
        ),
        Panel(
            "How streams end",
            "Streams a second that ended: told to their end (whole), left by their reader (left), held up by one that "
            "takes nothing (slow), broken off for want of a gateway (cut) or by a replica that goes (closing); and "
            "those that went on behind a reader's last event.",
            "cut or slow stay above 0.",
            [
                Query(total("end", rate("http_api_streams_ended_total")), "{{end}}"),
                Query(f"sum({rate('http_api_streams_resumed_total')})", "went on"),
            ],
            width=Width.QUARTER,
        ),
    ],
)

QUESTIONS = Row(
    "Questions for people",
    [
        Panel(
            "Questions that wait",
            "Questions of runs that nobody has answered, by agent.",
            "it grows from day to day.",
            [Query(f"max by (agent) ({series('questions_waiting')})", "{{agent}}")],
            link=Link("Questions that wait", "/questions", within_time=False),
        ),
        Panel(
            "Oldest question",
            "How long the oldest of them has waited.",
            "it nears the questions' lifetime (mostly seven days): then its run ends in review.",
            [Query(f"max by (agent) ({series('questions_oldest_age_seconds')})", "{{agent}}")],
            "s",
            link=Link("Questions that wait", "/questions", within_time=False),
        ),
    ],
)

SPEND = Row(
    "Tokens and cost",
    [
        Panel(
            "Tokens by agent",
            "Tokens a second of committed steps, those of the guard and the evaluator included.",
            "an agent spends more while as many runs end: look at its routes.",
            [Query(total("agent, direction", rate("agent_tokens_total")), "{{agent}} {{direction}}")],
            link=Link("Runs of this agent", "/runs", by={"agent": "agent"}),
        ),
        Panel(
            "Estimated cost an hour",
            "What these tokens cost by SIGNALBOX_MODEL_PRICES, in the currency of the prices; and, for how far to "
            "believe it, tokens a second of models that have no price there.",
            "it leaves its daily pattern, or tokens have no price.",
            [
                Query(f"{total('agent', rate('agent_cost_total'))} * 3600", "{{agent}}"),
                Query(total("agent", rate("agent_unpriced_tokens_total")), "{{agent}} unpriced tokens/s"),
            ],
        ),
        Panel(
            "Tokens by model",
            "Tokens a second of committed steps by the model that was asked.",
            "a dear model gets what a cheap one is there for: a fallback, or another setting of the roles.",
            [Query(total("model", rate("model_spent_tokens_total")), "{{model}}")],
        ),
        Panel(
            "Estimated cost an hour by model",
            "What these tokens cost by SIGNALBOX_MODEL_PRICES.",
            "it leaves its daily pattern.",
            [Query(f"{total('model', rate('model_cost_total'))} * 3600", "{{model}}")],
        ),
        Panel(
            "Tokens by version of prompts",
            "Tokens a second of each agent by the version of its prompts, as `signalbox policies` names it.",
            "a new version takes more for as many runs, or two are there long after a roll-out.",
            [Query(_by_prompts("agent_tokens_total"), "{{agent}} {{prompts}}")],
            link=Link("Runs of this agent", "/runs", by={"agent": "agent"}),
        ),
        Panel(
            "Estimated cost an hour by version of prompts",
            "What these tokens cost, by the version of the agent's prompts.",
            "a new version is dearer for as many runs.",
            [Query(f"{_by_prompts('agent_cost_total')} * 3600", "{{agent}} {{prompts}}")],
            link=Link("Runs of this agent", "/runs", by={"agent": "agent"}),
        ),
        Panel(
            "Cost of a run that brings what was asked",
            "What all runs of an agent cost, for each that was answered, done or previewed, found a cause or came to a "
            "verdict.",
            "it rises: runs got dearer, or fewer bring anything; compare what prompts and models were changed to then.",
            [Query(f"{total('agent', rate('agent_cost_total'))} / {SUCCEEDED}", "{{agent}}")],
            link=Link("Runs of this agent", "/runs", by={"agent": "agent"}),
        ),
        Panel(
            "Tokens by purpose",
            "Tokens a second by what a model is asked for; each purpose has the model of its role.",
            "one grows while as many runs end: its prompt or its model is another.",
            [Query(total("purpose, direction", rate("model_tokens_total")), "{{purpose}} {{direction}}")],
        ),
        Panel(
            "Budget used at the end",
            "The 95th percentile of what runs had used of each limit of their budget. 1 is all of it.",
            "it is at 1: runs end because their budget does, not because they are done.",
            [Query(quantile(0.95, "agent, budget", "run_budget_used_ratio"), "{{agent}} {{budget}}")],
            "percentunit",
            link=Link("Runs of this agent", "/runs", by={"agent": "agent"}),
        ),
        Panel(
            "Wordings that were not kept",
            "The share of models' wordings of results that stated what stands in none, and were not shown.",
            "it rises: a model makes numbers up, or writes them in a form that is not known.",
            [
                Query(
                    share(rate("wordings_total", 'outcome="unsupported"'), rate("wordings_total")),
                    "not kept",
                )
            ],
            "percentunit",
        ),
        Panel(
            "Calls beyond a budget",
            "Calls a second that were asked for and not made, since their run's budget was spent.",
            "it stays above 0: a model asks for more at once than a run may do.",
            [Query(total("kind, limit", rate("calls_beyond_budget_total")), "{{kind}}: {{limit}}")],
        ),
        Panel(
            "Model calls",
            "Calls a second by purpose and outcome, and their 95th percentile.",
            "errors are more than a few in a hundred, or a purpose slows down.",
            [
                Query(
                    total("purpose, outcome", rate("model_call_duration_seconds_count")),
                    "{{purpose}} {{outcome}}",
                ),
                Query(quantile(0.95, "purpose", "model_call_duration_seconds"), "{{purpose}} 95% (s)", traced=True),
            ],
        ),
    ],
)

VERSIONS = Row(
    "What runs",
    [
        Panel(
            "Replicas by service and version",
            "Replicas that are scraped, by service, version and commit.",
            "a service has fewer than its Deployment asks for, or two versions long after a rollout.",
            [
                Query(
                    f"count by (service, version, revision) ({series('build_info')})",
                    "{{service}} {{version}} {{revision}}",
                )
            ],
            kind=Kind.BARS,
            width=Width.WHOLE,
        ),
    ],
)

BOARD = Board(
    "signalbox-overview",
    "Signalbox / Overview",
    "Do runs end well and in time, is there room for more, and what does it cost?",
    [OUTCOMES, SATURATION, HTTP, QUESTIONS, SPEND, VERSIONS],
)
