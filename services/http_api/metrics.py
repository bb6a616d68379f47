"""What the HTTP API counts."""

from prometheus_client import Counter, Gauge, Histogram

from services.kit.telemetry.metrics import DURATION_BUCKETS, from_zero
from services.kit.telemetry.names import METRIC_PREFIX

# The operation of requests that have none.
NO_OPERATION = "none"
STREAM_ENDS = ("whole", "left", "slow", "cut", "closing")
REQUESTS = Histogram(
    METRIC_PREFIX + "http_api_request_duration_seconds",
    "Duration of requests until their answer begins, by operation and status.",
    ["operation", "status"],
    buckets=DURATION_BUCKETS,
)
OPEN_STREAMS = Gauge(METRIC_PREFIX + "http_api_open_streams", "Streams and waits that are open now.")
STREAMS_ENDED = from_zero(
    Counter(METRIC_PREFIX + "http_api_streams_ended_total", "Streams and waits that ended, by how.", ["end"]),
    STREAM_ENDS,
)
STREAMS_RESUMED = Counter(
    METRIC_PREFIX + "http_api_streams_resumed_total", "Streams that went on behind a reader's last event."
)
EVENTS_SENT = Counter(METRIC_PREFIX + "http_api_events_sent_total", "Events that streams have told.")
