"""Executors, guard and evaluator: what runs call, and how that answers."""

from __future__ import annotations

from charts.dashboards.panels import Board, Panel, Query, Row, Width
from charts.dashboards.promql import quantile, rate, series, total

TOOLS = Row(
    "Tools",
    [
        Panel(
            "Tool calls by outcome",
            "Calls a second as the executors served them: ok, or the reason why not.",
            "refusals take over: the model asks for what it can't have, or a policy changed.",
            [Query(total("tool, outcome", rate("tool_calls_served_total")), "{{tool}} {{outcome}}")],
            "reqps",
        ),
        Panel(
            "Duration of tool calls",
            "The 95th percentile, as runs wait for it and as executors take for it.",
            "the first is far above the second: calls wait on their way.",
            [
                Query(quantile(0.95, "tool", "tool_call_duration_seconds"), "{{tool}} as called", traced=True),
                Query(quantile(0.95, "tool", "tool_serving_duration_seconds"), "{{tool}} as served", traced=True),
            ],
            "s",
        ),
        Panel(
            "Results cut by a cap",
            "Results a second that were cut because they were too large, by tool.",
            "answers are often cut: agents judge by parts.",
            [Query(total("tool", rate("tool_results_cut_total")), "{{tool}}")],
            "reqps",
        ),
    ],
)

SQL = Row(
    "SQL executor",
    [
        Panel(
            "Queries by outcome",
            "Queries a second in the user's database.",
            "`timeout` or `error` rise: the database is slow or away.",
            [Query(total("outcome", rate("sql_query_duration_seconds_count")), "{{outcome}}")],
            "reqps",
        ),
        Panel(
            "Duration of queries",
            "The 95th percentile in the database, and of the wait for a connection before.",
            "it nears the policy's statement timeout.",
            [
                Query(quantile(0.95, "", "sql_query_duration_seconds"), "query"),
                Query(quantile(0.95, "", "sql_pool_wait_seconds"), "wait for a connection"),
            ],
            "s",
        ),
        Panel(
            "Queries that could not be stopped",
            "Queries that outlast both their timeout and a cancel request, each with its connection; and how those "
            "ended that outlasted their timeout.",
            "one is overdue: it holds a connection and a core of the database.",
            [
                Query(f"sum({series('sql_queries_overdue')})", "overdue now"),
                Query(total("by", rate("sql_queries_abandoned_total")), "ended by {{by}}"),
            ],
        ),
    ],
)

CODE = Row(
    "Code executor",
    [
        Panel(
            "Snapshots",
            "The 95th percentile of making a commit's snapshot, the fetch included.",
            "remote ones get slow: the git server, or repositories too large for the cache.",
            [Query(quantile(0.95, "source", "code_snapshot_duration_seconds"), "{{source}}")],
            "s",
            Width.THIRD,
        ),
        Panel(
            "Cache look-ups",
            "Look-ups a second by kind and result, and evictions.",
            "misses and evictions go together: the cache is too small (SIGNALBOX_CODE_CACHE_BYTES).",
            [
                Query(total("kind, result", rate("code_cache_lookups_total")), "{{kind}} {{result}}"),
                Query(total("kind", rate("code_cache_evictions_total")), "{{kind}} evicted"),
            ],
            width=Width.THIRD,
        ),
        Panel(
            "Cache size",
            "Bytes in each replica's cache, as counted after its last build.",
            "it is beyond SIGNALBOX_CODE_CACHE_BYTES, or nears the pod's scratch.",
            [Query(f"max by (instance) ({series('code_cache_bytes')})", "{{instance}}")],
            "bytes",
            Width.THIRD,
        ),
    ],
)

MCP = Row(
    "MCP executor",
    [
        Panel(
            "Tools of MCP servers",
            "Tools that agents may call, as their servers had them when they were last asked; and those left out.",
            "one is changed or gone: it is refused until `signalbox mcp-tools --accept`; or left out: that says why.",
            [
                Query(f"max by (server, state) ({series('mcp_tools')})", "{{server}} {{state}}"),
                Query(f"max by (server) ({series('mcp_tools_left_out')})", "{{server}} left out"),
            ],
        ),
        Panel(
            "Calls of MCP servers by outcome",
            "Calls a second: ok; refused there, or before it was asked; away; busy; unknown, of one that writes.",
            "`unknown` is above 0: something may have been done, and nobody knows.",
            [Query(total("server, outcome", rate("mcp_calls_total")), "{{server}} {{outcome}}")],
            "reqps",
        ),
        Panel(
            "MCP servers: duration of calls, and who is away",
            "The 95th percentile of a call, connecting included; and 1 while a server's calls are held back.",
            "one is away, or nears its `call_timeout_s`: its runs wait, and those of others do not.",
            [
                Query(quantile(0.95, "server", "mcp_call_duration_seconds"), "{{server}}", traced=True),
                Query(f"max by (server) ({series('mcp_server_away')})", "{{server}} away"),
            ],
            "s",
        ),
        Panel(
            "Tokens of callers",
            "Exchanges of a run's token for its caller's at a server, a second.",
            "`away`: the issuer is not there, and runs wait; `refused`: callers have not given their consent.",
            [Query(total("server, outcome", rate("mcp_token_exchanges_total")), "{{server}} {{outcome}}")],
            "reqps",
        ),
    ],
)

GRAPH = Row(
    "Graph executor",
    [
        Panel(
            "Graph queries by outcome",
            "What is asked of the graph database a second. `away`: it did not answer; `overtaken`: another call was "
            "faster, and this one begins again.",
            "`away`, `full` or `timeout` are above 0 for more than a moment.",
            [Query(total("outcome", rate("graph_queries_total")), "{{outcome}}")],
            "reqps",
        ),
        Panel(
            "Duration of graph queries",
            "The 95th percentile by kind, the wait for a connection included.",
            "`element` or `record`, which look at a node, take longer than a tenth of a second.",
            [Query(quantile(0.95, "kind", "graph_query_duration_seconds"), "{{kind}}")],
            "s",
        ),
        Panel(
            "Graph connections",
            "What is asked now by each replica, and how many connections it opens at the most: what is more, waits.",
            "the first is at the second: SIGNALBOX_GRAPH_CONNECTIONS is too small, or the database too slow.",
            [
                Query(f"max by (instance) ({series('graph_queries_active')})", "{{instance}}"),
                Query(f"max({series('graph_connections_max')})", "most"),
            ],
        ),
        Panel(
            "Changes of graphs",
            "Changes a second: by tools, by taking one back, and by callers' Cypher; and queries that were not stopped "
            "in time.",
            "undo nears what is changed: agents do what people do not want. One overdue query stops others.",
            [
                Query(total("by", rate("graph_changes_total")), "{{by}}"),
                Query(f"sum({rate('graph_queries_overdue_total')})", "overdue"),
            ],
            "ops",
        ),
    ],
)

GUARD = Row(
    "Guard",
    [
        Panel(
            "Screenings by verdict",
            "Questions screened a second, by verdict, reason and the part that decided.",
            "blocks by the model rise without a change in who asks: look at what it blocks.",
            [
                Query(
                    total("verdict, reason, stage", rate("guard_screenings_total")) + " > 0",
                    "{{verdict}} {{reason}} {{stage}}",
                )
            ],
            "reqps",
        ),
        Panel(
            "Screenings without a verdict",
            "Questions a second that got none, by cause. None of them was let through.",
            "it is above 0 for more than a moment: their runs wait, and fail when their time is up.",
            [Query(total("reason, cause", rate("guard_failures_total")), "{{reason}} {{cause}}")],
            "reqps",
        ),
        Panel(
            "Duration of the guard's model",
            "The 95th percentile of a screening's model calls, by verdict; NONE when there was none.",
            "it nears SIGNALBOX_MODEL_TIMEOUT_S of the guard.",
            [Query(quantile(0.95, "verdict", "guard_model_duration_seconds"), "{{verdict}}", traced=True)],
            "s",
        ),
    ],
)

EVALUATOR = Row(
    "Evaluator",
    [
        Panel(
            "Drafts judged",
            "Drafts a second by kind, outcome and the stage that decided.",
            "the mechanical stage refuses most: drafts cite what is not there.",
            [
                Query(
                    total("kind, outcome, stage", rate("evaluator_evaluations_total")), "{{kind}} {{outcome}} {{stage}}"
                )
            ],
            "reqps",
        ),
        Panel(
            "Claims that do not hold",
            "Claims a second that failed a mechanical check, by reason; and answers of the model that were no JSON.",
            "it follows a change of model or prompt.",
            [
                Query(total("reason", rate("evaluator_evidence_problems_total")), "{{reason}}"),
                Query(total("kind", rate("evaluator_unreadable_answers_total")), "unreadable: {{kind}}"),
            ],
            "reqps",
        ),
        Panel(
            "Duration of the mechanical checks",
            "The 95th percentile of checking a draft against the code.",
            "it is more than a second.",
            [Query(quantile(0.95, "", "evaluator_check_duration_seconds"), "checks")],
            "s",
        ),
    ],
)

BOARD = Board(
    "signalbox-executors",
    "Signalbox / Executors and guard",
    "What runs call, and how that answers.",
    [TOOLS, SQL, GRAPH, CODE, MCP, GUARD, EVALUATOR],
)
