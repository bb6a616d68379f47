"""On call: what fires, how much may still fail, and which replica is at its end."""

from __future__ import annotations

from charts.dashboards.panels import Board, Kind, Link, Panel, Query, Row, Width
from charts.dashboards.promql import NAMESPACE, SERVICE_OF, quantile, series, share

# As metrics.rules.goals has them in the chart's values: the fields of the dashboard are for those who changed them.
GOALS = {"success": ("Goal: runs that do not fail", "0.99"), "latency": ("Goal: runs in time", "0.95")}
_MONTH = "30d"
_IN_TIME = ('state="SUCCEEDED"', 'le="60.0"')


def _month(name: str, *matchers: str) -> str:
    return f"sum(increase({series(name, *matchers)}[{_MONTH}]))"


def _left(bad: str, whole: str, goal: str) -> str:
    return f"1 - ({share(bad, whole)}) / (1 - ${goal})"


def _of_replica(expr: str) -> str:
    return f"sum by (service, instance) ({expr} * {SERVICE_OF})"


_EXPIRES = f"min by (instance) ({series('certificate_expires_timestamp_seconds')})"
_SUCCEEDED = _month("run_duration_seconds_count", 'state="SUCCEEDED"')

NOW = Row(
    "Now",
    [
        Panel(
            "Alerts that fire",
            "Each alert that fires, with its severity; the runbook of its name says what to do.",
            "it is a page: callers feel it.",
            [
                Query(
                    'sum by (alertname, severity) (ALERTS{alertstate="firing",alertname=~"Signalbox.*"}) '
                    'or label_replace(vector(0), "alertname", "none", "", "")',
                    "{{alertname}} {{severity}}",
                )
            ],
            kind=Kind.BARS,
        ),
        Panel(
            "Error budget left",
            "Of the failures that the goal allows in 30 days, the share that is left; below 0 the goal is missed.",
            "it falls by more than a thirtieth in a day.",
            [
                Query(
                    _left(
                        _month("run_duration_seconds_count", 'state="FAILED"'),
                        _month("run_duration_seconds_count"),
                        "success",
                    ),
                    "failures",
                )
            ],
            "percentunit",
            Width.QUARTER,
            Kind.NUMBER,
            threshold=0.1,
        ),
        Panel(
            "Lateness budget left",
            "Of the late runs that the goal allows in 30 days, the share that is left. Late is longer than 60 s.",
            "it falls by more than a thirtieth in a day.",
            [
                Query(
                    _left(
                        f"{_SUCCEEDED} - {_month('run_duration_seconds_bucket', *_IN_TIME)}",
                        _SUCCEEDED,
                        "latency",
                    ),
                    "late runs",
                )
            ],
            "percentunit",
            Width.QUARTER,
            Kind.NUMBER,
            threshold=0.1,
        ),
    ],
)

REPLICAS = Row(
    "Replicas",
    [
        Panel(
            "Memory by replica",
            "What each replica holds, and below the name of its service the limit beyond which it is ended (0: none).",
            "it nears the limit: the kernel ends it, and its runs are taken over.",
            [
                Query(_of_replica(f"process_resident_memory_bytes{{{NAMESPACE}}}"), "{{service}} {{instance}}"),
                Query(f"max by (service) ({series('memory_limit_bytes')} * {SERVICE_OF})", "{{service}}: limit"),
            ],
            "bytes",
        ),
        Panel(
            "CPU by replica",
            "Cores in use. A replica is one process, and its event loop uses one of them at the most.",
            "it stays above the line: the loop is late, and so is every call.",
            [
                Query(
                    _of_replica(f"rate(process_cpu_seconds_total{{{NAMESPACE}}}[$__rate_interval])"),
                    "{{service}} {{instance}}",
                )
            ],
            threshold=0.5,
        ),
        Panel(
            "Starts by replica",
            "How often each replica has started again within an hour, at its address.",
            "it is more than one: it ends by itself, for want of memory, or by its liveness probe.",
            [
                Query(
                    _of_replica(f"changes(process_start_time_seconds{{{NAMESPACE}}}[1h])"),
                    "{{service}} {{instance}}",
                )
            ],
            threshold=3,
        ),
        Panel(
            "Replicas by service",
            "Replicas that Prometheus sees.",
            "there are fewer than the values say: `kubectl get pods`.",
            [Query(f"count by (service) ({series('build_info')})", "{{service}}")],
        ),
    ],
)

PRESSURE = Row(
    "Pressure",
    [
        Panel(
            "Lateness of event loops",
            "The 99th percentile of how late a timer comes, by replica.",
            "it is above the line: too little CPU, or one call that holds all others up.",
            [Query(quantile(0.99, "instance", "event_loop_lag_seconds"), "{{instance}}")],
            "s",
            Width.QUARTER,
            threshold=0.25,
        ),
        Panel(
            "Oldest run that waits",
            "How long the first of the runs that any replica could begin has waited.",
            "it is above the line: no replica has room.",
            [Query(f"max by (pool) ({series('runs_pending_oldest_age_seconds')})", "{{pool}}")],
            "s",
            Width.QUARTER,
            link=Link("Runs that wait", "/runs", where={"state": "PENDING"}, within_time=False),
            threshold=60,
        ),
        Panel(
            "Room for runs",
            "Runs that the replicas execute, of those that they would at most.",
            "it stays above the line: add replicas.",
            [Query(f"sum({series('runs_active')}) / sum({series('runs_capacity')})", "in use")],
            "percentunit",
            Width.QUARTER,
            threshold=0.9,
        ),
        Panel(
            "Days of certificates",
            "For how long the certificate that each replica shows is good yet; 0 where it shows none.",
            "it falls below a week: it is not renewed, or not read again.",
            [
                Query(
                    f"clamp_min(({_EXPIRES} - time()) / 86400, 0)",
                    "{{instance}}",
                )
            ],
            "d",
            Width.QUARTER,
        ),
    ],
)

BOARD = Board(
    "signalbox-on-call",
    "Signalbox / On call",
    "What fires, how much may still fail, and which replica is at its end.",
    [NOW, REPLICAS, PRESSURE],
    GOALS,
)
