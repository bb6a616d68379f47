"""Token buckets and stream counts of the gateway."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway import quota
from services.gateway.errors import TooManyRequests, TooManyStreams
from services.gateway.quota import Quota, Quotas


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make(clock: Clock, *, per_minute: int = 60, burst: int = 2, streams: int = 2) -> Quotas:
    return Quotas(Quota(per_minute, burst, streams), clock=clock)


def test_the_burst_goes_through_at_once_and_the_next_call_waits_its_turn(clock: Clock) -> None:
    quotas = make(clock)
    quotas.spend_request("27")
    quotas.spend_request("27")
    with pytest.raises(TooManyRequests) as caught:
        quotas.spend_request("27")
    assert caught.value.retry_after_s == pytest.approx(1.0)
    clock.now += 1.0
    quotas.spend_request("27")


def test_the_time_to_wait_is_enough_to_wait(clock: Clock) -> None:
    quotas = make(clock, per_minute=7, burst=1)
    quotas.spend_request("27")
    clock.now += 3
    with pytest.raises(TooManyRequests) as caught:
        quotas.spend_request("27")
    assert caught.value.retry_after_s is not None
    clock.now += caught.value.retry_after_s + 1e-6
    quotas.spend_request("27")


def test_an_idle_caller_saves_up_no_more_than_the_burst(clock: Clock) -> None:
    quotas = make(clock)
    quotas.spend_request("27")
    clock.now += 3600
    quotas.spend_request("27")
    quotas.spend_request("27")
    with pytest.raises(TooManyRequests):
        quotas.spend_request("27")


def test_callers_do_not_share(clock: Clock) -> None:
    quotas = make(clock, burst=1)
    quotas.spend_request("27")
    quotas.spend_request("31")


def test_a_stream_counts_until_it_ends_however_it_ends(clock: Clock) -> None:
    quotas = make(clock, streams=1)
    with pytest.raises(RuntimeError, match="broke"), quotas.stream("27"):
        raise RuntimeError("the stream broke")
    with quotas.stream("27"):
        with pytest.raises(TooManyStreams), quotas.stream("27"):
            pytest.fail("a second stream was let through")
        with quotas.stream("31"):
            pass
    with quotas.stream("27"):
        pass


def test_memory_is_bounded_and_callers_with_streams_are_not_forgotten(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "MAX_CALLERS", 10)
    quotas = make(clock, streams=1, burst=1)
    with quotas.stream("first"):
        for number in range(50):
            quotas.spend_request(f"caller-{number}")
        assert len(quotas._accounts) <= 10
        with pytest.raises(TooManyStreams), quotas.stream("first"):
            pytest.fail("the open stream was forgotten")


def test_of_two_callers_the_one_who_called_last_is_remembered(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "MAX_CALLERS", 2)
    quotas = make(clock, burst=1)
    quotas.spend_request("27")
    quotas.spend_request("31")
    with pytest.raises(TooManyRequests):
        quotas.spend_request("27")
    quotas.spend_request("44")
    with pytest.raises(TooManyRequests):
        quotas.spend_request("27")
    quotas.spend_request("31")


@given(st.lists(st.floats(0, 30), min_size=1, max_size=200))
def test_over_any_time_no_more_than_burst_plus_rate_goes_through(gaps: list[float]) -> None:
    clock = Clock()
    quotas = make(clock, per_minute=30, burst=3)
    begin, passed = clock.now, 0
    for gap in gaps:
        clock.now += gap
        try:
            quotas.spend_request("27")
        except TooManyRequests:
            continue
        passed += 1
    assert passed <= 3 + (clock.now - begin) * 30 / 60 + 1e-6
