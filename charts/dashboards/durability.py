"""Durability: whether runs outlive replicas, and what is kept of them."""

from __future__ import annotations

from charts.dashboards.panels import Board, Link, Panel, Query, Row, Width
from charts.dashboards.promql import rate, series, total

RUNS = Row(
    "Runs and replicas",
    [
        Panel(
            "Claims by kind",
            "Claims of runs a second: as they were created, from the queue, and from replicas that were gone.",
            "`taken_over` goes on without a rollout or a node that went.",
            [Query(total("kind", rate("runs_claimed_total")), "{{kind}}")],
            "runps",
        ),
        Panel(
            "Takeovers and fenced writes",
            "Runs of gone replicas made pending again, and writes refused because another replica had the run.",
            "they go on: replicas die, or stall for longer than their lease.",
            [
                Query(f"sum({rate('runs_taken_over_total')})", "taken over"),
                Query(f"sum({rate('claims_lost_total')})", "writes fenced off"),
            ],
        ),
        Panel(
            "Runs without an owner",
            "Runs whose owner is gone, as the replicas' last sweeps found them.",
            "it is above 0 for longer than a lease: nobody takes them over.",
            [Query(f"max({series('runs_orphaned')})", "orphaned")],
            width=Width.QUARTER,
        ),
        Panel(
            "Runs that no replica can go on with",
            "Pending runs of another graph, by agent; the least of all replicas, as one that can is enough.",
            "it is above 0: `signalbox compat-check` says why.",
            [Query(f"min by (agent) ({series('runs_not_carried')})", "{{agent}}")],
            width=Width.QUARTER,
            link=Link(
                "Runs of this agent that wait",
                "/runs",
                by={"agent": "agent"},
                where={"state": "PENDING"},
                within_time=False,
            ),
        ),
        Panel(
            "Runs given back",
            "Runs a second that their replica let go of, by reason.",
            "`database_away` is above 0, or `interrupted` outside of rollouts: steps are cut off.",
            [Query(total("reason", rate("runs_given_back_total")), "{{reason}}")],
            "runps",
        ),
    ],
)

WORK = Row(
    "Background work",
    [
        Panel(
            "Lease age and other work",
            "Time since each kind of work last went well, on the replica where that is longest ago. "
            "`renew_leases` is the age of a lease.",
            "`renew_leases` passes SIGNALBOX_LEASE_S: the replica loses its runs; `claim` and `sweep` should be "
            "seconds, unless the replica is full.",
            [Query(f"time() - min by (work) ({series('background_last_success_timestamp_seconds')})", "{{work}}")],
            "s",
        ),
        Panel(
            "Rounds that failed",
            "Rounds of background work a second that failed, by work; they are tried again.",
            "one goes on: the replica's log says why.",
            [Query(total("work", rate("background_failures_total")), "{{work}}")],
        ),
        Panel(
            "Clock against the database's",
            "How far each replica's clock is ahead of the database's, or behind.",
            "it nears SIGNALBOX_CLOCK_TOLERANCE_S, beyond which the replica takes no runs.",
            [Query(f"max by (instance) (abs({series('clock_skew_seconds')}))", "{{instance}}")],
            "s",
        ),
    ],
)

STORED = Row(
    "What is kept",
    [
        Panel(
            "Checkpoint bytes written",
            "Bytes of checkpoints and writes a second that went to the database, and a run's share of them.",
            "a run's share grows: a state field keeps what it need not.",
            [
                Query(f"sum({rate('checkpoint_written_bytes_total')})", "all"),
                Query(
                    f"sum({rate('checkpoint_written_bytes_total')}) / (sum({rate('run_duration_seconds_count')}) > 0)"
                    f" or sum({rate('checkpoint_written_bytes_total')}) * 0",
                    "by run that ends",
                ),
            ],
            "Bps",
        ),
        Panel(
            "Stored bytes",
            "Bytes in the platform database with indexes, by table.",
            "it grows though as many runs are asked for: retention, or autovacuum, does not keep up.",
            [Query(f"max by (table) ({series('stored_bytes')})", "{{table}}")],
            "bytes",
        ),
        Panel(
            "Stored rows",
            "Rows in the platform database, as Postgres estimates them, by table.",
            "it grows though as many runs are asked for.",
            [Query(f"max by (table) ({series('stored_rows')})", "{{table}}")],
        ),
        Panel(
            "Retention lag",
            "How overdue what the last batch of retention took from was, at most.",
            "it is above an hour: retention does not keep up.",
            [Query(f"max({series('retention_lag_seconds')})", "lag")],
            "s",
            Width.QUARTER,
        ),
        Panel(
            "Unreadable history",
            "Runs a second whose older checkpoints retention left alone because it could not read them, by agent.",
            "it is above 0: the log names the runs.",
            [Query(total("agent", rate("retention_unreadable_total")), "{{agent}}")],
            width=Width.QUARTER,
        ),
        Panel(
            "Rows and bytes removed",
            "What retention removed a second, by kind.",
            "it stays at 0 while runs grow older than their policy keeps them.",
            [
                Query(total("kind", rate("retention_rows_removed_total")), "{{kind}} rows"),
                Query(total("kind", rate("retention_bytes_removed_total")), "{{kind}} bytes"),
            ],
        ),
    ],
)

CALLED, MISSED, DECIDED = (f'verdict=~"{verdict}"' for verdict in ("true_positive", "false_positive", ".+_positive"))
VULNERABLE, HARMLESS = 'truth="vulnerable"', 'truth="harmless"'
_FOUND = f"sum({series('batch_verdicts_total', CALLED, VULNERABLE)})"
_CALLED = f"sum({series('batch_verdicts_total', CALLED)})"
_WEAK = f"sum({series('batch_verdicts_total', DECIDED, VULNERABLE)})"

BATCHES = Row(
    "Batches",
    [
        Panel(
            "Runs of batches",
            "Runs that batches hold, and as many as they hold themselves to, together.",
            "far fewer are held than may be, while batches are paced: quotas are used up, or the runtime is away.",
            [
                Query(f"sum({series('batch_runs_held')})", "held"),
                Query(f"sum({series('batch_pace')})", "pace"),
                Query(f"sum({series('batches_paced')})", "batches"),
            ],
        ),
        Panel(
            "Items that ended",
            "Items of batches that ended a second, by state.",
            "`refused` or `failed` take over: `signalbox batches export` says why.",
            [Query(total("state", rate("batch_items_ended_total")), "{{state}}")],
            "reqps",
        ),
        Panel(
            "Times that batches went slower",
            "A second, by cause: a run was refused, waited for what is away, or took long.",
            "it goes on: the platform has no room for what is asked of it.",
            [Query(total("cause", rate("batch_slowed_total")), "{{cause}}")],
        ),
        Panel(
            "Time since an item ended",
            "Of the batch that has waited for longest, while it has items left.",
            "it grows: its runs wait for people, or for what is away; `signalbox batches show` says what holds it up.",
            [Query(f"max({series('batch_stalled_seconds')})", "longest")],
            "s",
        ),
        Panel(
            "How good verdicts are",
            "Of runs of batches on findings whose truth is known, since replicas began: precision, recall, F1.",
            "one falls after a change of models or prompts; `signalbox batches show` has them by batch and rule.",
            [
                Query(f"{_FOUND} / {_CALLED}", "precision"),
                Query(f"{_FOUND} / {_WEAK}", "recall"),
                Query(f"2 * {_FOUND} / ({_CALLED} + {_WEAK})", "F1"),
            ],
        ),
        Panel(
            "Verdicts by rule",
            "Of the same runs, those that were wrong, by rule of the analyser.",
            "one rule leads: its prompts or its rule is what to look at.",
            [
                Query(total("rule", series("batch_verdicts_total", CALLED, HARMLESS)), "{{rule}} called a weakness"),
                Query(total("rule", series("batch_verdicts_total", MISSED, VULNERABLE)), "{{rule}} missed"),
            ],
        ),
    ],
)

BOARD = Board(
    "signalbox-durability",
    "Signalbox / Durability",
    "Whether runs outlive replicas, and what is kept of them.",
    [RUNS, WORK, STORED, BATCHES],
)
