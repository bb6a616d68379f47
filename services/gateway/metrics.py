"""What the gateway counts."""

from prometheus_client import Counter, Gauge

from services.kit.telemetry.metrics import from_zero
from services.kit.telemetry.names import METRIC_PREFIX

OPEN_STREAMS = Gauge(METRIC_PREFIX + "gateway_open_streams", "Streams to callers that are open now.", ["method"])
STREAM_CONTINUATIONS = Counter(
    METRIC_PREFIX + "gateway_stream_continuations_total",
    "Streams opened again at the runtime after a cut, by the status that cut them.",
    ["code"],
)
STREAMS_GIVEN_UP = Counter(
    METRIC_PREFIX + "gateway_streams_given_up_total", "Streams that found no other replica in time."
)
EVENTS_REPEATED = Counter(
    METRIC_PREFIX + "gateway_events_repeated_total", "Events that the runtime sent again and callers did not see twice."
)
QUOTA_REFUSALS = Counter(
    METRIC_PREFIX + "gateway_quota_refusals_total", "Calls refused because a caller was over its quota.", ["quota"]
)
KEY_FETCHES = Counter(
    METRIC_PREFIX + "gateway_key_fetches_total", "Fetches of the keys of callers' issuer, by outcome.", ["outcome"]
)

from_zero(OPEN_STREAMS, ["ExecuteRun", "WatchRun"])
from_zero(STREAM_CONTINUATIONS, ["OK", "UNAVAILABLE", "CANCELLED", "UNKNOWN", "INTERNAL"])
from_zero(QUOTA_REFUSALS, ["requests", "streams"])
from_zero(KEY_FETCHES, ["ok", "failed"])
