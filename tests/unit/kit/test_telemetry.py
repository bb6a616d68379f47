"""What is traced: nothing without somewhere to send it; else a share of what begins here, and all that is under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry import baggage, propagate
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from prometheus_client import REGISTRY

from services.kit.telemetry import tracing
from services.kit.telemetry.metrics import tell_build
from services.kit.telemetry.tracing import carried, carrying, start_telemetry, trace_ids

NOBODY_LISTENS = "http://127.0.0.1:1"
Start = Callable[[str, float], TracerProvider]


@pytest.fixture
def start() -> Iterator[Start]:
    providers = []

    def started(endpoint: str, ratio: float) -> TracerProvider:
        providers.append(start_telemetry("gateway", otlp_endpoint=endpoint, sample_ratio=ratio))
        return providers[-1]

    yield started
    for provider in providers:
        provider.shutdown()


@pytest.fixture(scope="module")
def propagator() -> Iterator[TextMapPropagator]:
    provider = start_telemetry("gateway", otlp_endpoint="")
    yield propagate.get_global_textmap()
    provider.shutdown()


def begun_elsewhere(*, sampled: bool) -> Context:
    ids = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(sampled))
    return set_span_in_context(NonRecordingSpan(ids))


def span(provider: TracerProvider, parent: Context | None = None) -> Span:
    return provider.get_tracer("test").start_span("call", parent or Context())


@pytest.mark.parametrize("sampled", [True, False])
def test_without_an_endpoint_spans_carry_their_trace_and_record_nothing(start: Start, sampled: bool) -> None:
    provider = start("", 1.0)
    assert not span(provider).is_recording()
    assert all(trace_ids(span(provider)))
    under_way = span(provider, begun_elsewhere(sampled=sampled))
    assert not under_way.is_recording()
    assert int(trace_ids(under_way)[0], 16) == 0xABC


def test_without_an_endpoint_each_span_has_an_id_of_its_own_and_is_the_current_one_inside(start: Start) -> None:
    tracer = start("", 1.0).get_tracer("test")
    with tracer.start_as_current_span("outer", Context()) as outer:
        assert get_current_span() is outer
        with tracer.start_as_current_span("inner", attributes={"answer": 42}) as inner:
            assert get_current_span() is inner
        assert get_current_span() is outer
    assert trace_ids(inner)[0] == trace_ids(outer)[0]
    assert trace_ids(inner)[1] != trace_ids(outer)[1]
    assert get_current_span() is not outer


def test_an_error_passes_through_a_span_that_records_nothing(start: Start) -> None:
    tracer = start("", 1.0).get_tracer("test")
    with pytest.raises(LookupError), tracer.start_as_current_span("call", Context()):
        raise LookupError


def test_what_is_carried_is_quoted_and_read_again_however_often(start: Start) -> None:
    start("", 1.0)
    ids = {"run_id": "r 1,;=%", "correlation_id": "größer"}
    for _ in range(2):
        headers: dict[str, str] = {}
        propagate.inject(headers, carrying(ids, Context()))
        arrived = propagate.extract(headers, Context())
        assert {field: carried(field, arrived) for field in ids} == ids
    nothing: dict[str, str] = {}
    propagate.inject(nothing, Context())
    assert "baggage" not in nothing


@given(st.text('a1=,;% \t+ü"', max_size=40))
@example(",".join(f"n{number}={number}" for number in range(200)))
@example("long=" + "x" * 5_000 + ",short=x")
@example("a=" + "x" * 4_000 + ",b=" + "x" * 4_000 + ",c=" + "x" * 4_000)
def test_baggage_is_read_as_opentelemetry_reads_it(propagator: TextMapPropagator, header: str) -> None:
    theirs = W3CBaggagePropagator().extract({"baggage": header}, Context())
    assert baggage.get_all(propagator.extract({"baggage": header}, Context())) == baggage.get_all(theirs)


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=9))
@example(dict.fromkeys((f"n{number}" for number in range(200)), "x"))
@example({"long": "x" * 5_000, "short": "x"})
@example(dict.fromkeys("abcd", "😀" * 127))
@example(dict.fromkeys("abcd", "😀" * 250))
@example(dict.fromkeys("abc", "x" * 4_000))
def test_baggage_is_written_as_opentelemetry_writes_it(propagator: TextMapPropagator, entries: dict[str, str]) -> None:
    carrying_them = Context()
    for name, value in entries.items():
        carrying_them = baggage.set_baggage(name, value, carrying_them)
    ours: dict[str, str] = {}
    propagator.inject(ours, carrying_them)
    theirs: dict[str, str] = {}
    W3CBaggagePropagator().inject(theirs, carrying_them)
    assert ours.get("baggage") == theirs.get("baggage")


@pytest.mark.parametrize("header", ["long=" + "x" * 2_000, ",".join(f"n{number}=x" for number in range(100))])
def test_what_is_longer_than_the_platforms_own_is_not_remembered(propagator: TextMapPropagator, header: str) -> None:
    remembered = tracing._read.cache_info().currsize, tracing._written.cache_info().currsize
    passed_on: dict[str, str] = {}
    propagator.inject(passed_on, propagator.extract({"baggage": header}, Context()))
    assert passed_on == {"baggage": header}
    assert (tracing._read.cache_info().currsize, tracing._written.cache_info().currsize) == remembered


@pytest.mark.parametrize(("ratio", "recorded"), [(0.0, False), (1.0, True)])
def test_a_share_of_the_traces_that_begin_here_is_recorded(start: Start, ratio: float, recorded: bool) -> None:
    assert span(start(NOBODY_LISTENS, ratio)).is_recording() is recorded


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_a_trace_that_began_elsewhere_is_recorded_if_it_is_there(start: Start, ratio: float, sampled: bool) -> None:
    assert span(start(NOBODY_LISTENS, ratio), begun_elsewhere(sampled=sampled)).is_recording() is sampled


@pytest.mark.parametrize(("written", "limit"), [("1073741824\n", 1 << 30), ("max\n", 0), (None, 0)])
def test_a_service_tells_beyond_how_much_memory_it_is_ended(tmp_path: Path, written: str | None, limit: int) -> None:
    cgroup = tmp_path / "memory.max"
    if written is not None:
        cgroup.write_text(written)
    tell_build("told", "", cgroup_limit=cgroup)
    assert REGISTRY.get_sample_value("signalbox_memory_limit_bytes") == limit
