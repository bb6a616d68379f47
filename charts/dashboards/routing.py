"""Routing: where runs go and why, who calls whom, and what is held back."""

from __future__ import annotations

from charts.dashboards.panels import Board, Kind, Link, Panel, Query, Row, Width
from charts.dashboards.promql import by_service, quantile, rate, series, share, total

_A_DAY = f"increase({series('routing_decisions_total')}[1d])"

DECISIONS = Row(
    "Decisions",
    [
        Panel(
            "Decisions by rule",
            "Decisions a second by router and rule. The dots are decisions: each leads to the trace of its run.",
            "a breaker (a rule that ends a run) takes a share that it did not have, or `node_failed` appears.",
            [Query(total("router, rule", rate("routing_decisions_total")), "{{router}}: {{rule}}", traced=True)],
            width=Width.WHOLE,
            link=Link("Runs in which this rule fired", "/runs", by={"rule": "rule"}),
        ),
        Panel(
            "Decisions by destination",
            "Where decisions lead, by agent, as a share of the agent's decisions.",
            "`__end__` rises against the nodes: runs are cut short.",
            [
                Query(
                    f"{total('agent, destination', rate('routing_decisions_total'))} / on (agent) group_left () "
                    f"({total('agent', rate('routing_decisions_total'))} > 0)",
                    "{{agent}} to {{destination}}",
                )
            ],
            "percentunit",
            link=Link("These decisions", "/decisions", by={"agent": "agent", "destination": "destination"}),
        ),
        Panel(
            "Rules that have not fired for a day",
            "How many rules of each router no run came to in the last day.",
            "a rule that should fire never does: it is hidden by one above it, or its limit is out of reach.",
            [
                Query(
                    f"count by (router) ({total('router, rule', _A_DAY)} == 0)",
                    "{{router}}",
                )
            ],
            kind=Kind.BARS,
            link=Link("How often each rule fires", "/rules", within_time=False),
        ),
        Panel(
            "Policy versions in force",
            "Replicas by agent and the version of the policy that new runs get there; runs under way keep theirs.",
            "an agent has two versions long after a rollout.",
            [Query(f"count by (agent, policy_version) ({series('agent_info')})", "{{agent}} {{policy_version}}")],
            kind=Kind.BARS,
            width=Width.WHOLE,
            link=Link("Policies, and what each would have decided", "/policies", within_time=False),
        ),
        Panel(
            "Limits in shadow",
            "The share of decisions that SIGNALBOX_SHADOW_POLICIES would have led elsewhere, by router.",
            "limits that are about to be set lead more decisions elsewhere than was meant.",
            [
                Query(
                    share(
                        total("router", rate("shadow_decisions_total", 'outcome="other"')),
                        total("router", rate("shadow_decisions_total")),
                    ),
                    "{{router}}",
                )
            ],
            "percentunit",
            width=Width.WHOLE,
            link=Link("Policies, and what each would have decided", "/policies", within_time=False),
        ),
    ],
)

EDGES = Row(
    "Traffic between services",
    [
        Panel(
            "Calls by edge",
            "Calls a second from a service to a target that ended, in any way.",
            "an edge goes quiet while runs go on, or one grows that should not.",
            [Query(by_service("target", rate("rpc_client_calls_total")), "{{service}} to {{target}}", traced=True)],
            "reqps",
        ),
        Panel(
            "Calls that fail, by edge",
            "Calls a second that ended with another status than OK or CANCELLED.",
            "UNAVAILABLE or DEADLINE_EXCEEDED stay: the target is away or too slow.",
            [
                Query(
                    by_service("target, code", rate("rpc_client_calls_total", 'code!~"OK|CANCELLED"')),
                    "{{service}} to {{target}}: {{code}}",
                )
            ],
            "reqps",
        ),
        Panel(
            "Duration by edge",
            "The 95th percentile of calls, by target; streams last as long as they are watched.",
            "a target slows down.",
            [Query(quantile(0.95, "target", "rpc_client_duration_seconds"), "{{target}}", traced=True)],
            "s",
        ),
        Panel(
            "Calls served by replica",
            "Calls a second that each replica served.",
            "a replica serves far less than its siblings for longer than a rollout.",
            [Query(by_service("instance", rate("rpc_server_duration_seconds_count")), "{{service}} {{instance}}")],
            "reqps",
        ),
        Panel(
            "Calls under way by replica",
            "Calls that each replica serves now, open streams among them.",
            "it grows and does not fall again.",
            [Query(by_service("instance", series("rpc_server_calls_active")), "{{service}} {{instance}}")],
        ),
        Panel(
            "Calls refused or failed, by reason",
            "Errors a second that services answered with, by reason.",
            "INTERNAL is above 0: that is a fault of ours, with a trace.",
            [Query(by_service("reason", rate("rpc_server_errors_total")) + " > 0", "{{service}}: {{reason}}")],
            "reqps",
        ),
    ],
)

WAITS = Row(
    "What is away",
    [
        Panel(
            "Breakers that are open",
            "Replicas that hold back calls of a dependency because it is away.",
            "it is above 0 for more than a moment.",
            [Query(total("dependency", series("circuit_open")), "{{dependency}}")],
        ),
        Panel(
            "Waits begun",
            "Waits a second that runs began, by dependency and cause.",
            "a cause goes on: what it names is away.",
            [Query(total("dependency, cause", rate("run_waits_total")), "{{dependency}}: {{cause}}")],
        ),
    ],
)

STREAMS = Row(
    "Streams to callers",
    [
        Panel(
            "Open streams",
            "Streams to callers that the gateway holds open.",
            "it falls at once while runs go on.",
            [Query(total("method", series("gateway_open_streams")), "{{method}}")],
            width=Width.THIRD,
        ),
        Panel(
            "Streams cut and taken up again",
            "Streams a second that were opened again after a cut, by the status that cut them, and those given up.",
            "streams are given up; cuts with OK are connections that came of age, and fine.",
            [
                Query(total("code", rate("gateway_stream_continuations_total")), "{{code}}"),
                Query(f"sum({rate('gateway_streams_given_up_total')})", "given up"),
                Query(f"sum({rate('gateway_events_repeated_total')})", "events repeated"),
            ],
            width=Width.THIRD,
        ),
        Panel(
            "Fetches of callers' keys",
            "Fetches a second of the issuer's keys, by outcome.",
            "they fail: callers with new keys are refused, and all of them once the known keys are too old.",
            [Query(total("outcome", rate("gateway_key_fetches_total")), "{{outcome}}")],
            width=Width.THIRD,
        ),
    ],
)

BOARD = Board(
    "signalbox-routing",
    "Signalbox / Routing",
    "Where runs go and why, who calls whom, and what is held back.",
    [DECISIONS, EDGES, WAITS, STREAMS],
)
