"""How chunks go to other replicas: in texts that are short enough, and put together there."""

from __future__ import annotations

import pytest

from services.kit.wire.event_kinds import TOKEN_CHUNK
from services.runtime.calls.token_chunks import CALLBACK_EVENTS, CUSTOM_WRITES
from services.runtime.engine.chunk_post import CALLED, MOST_BYTES, PayloadReader, payloads_of
from services.runtime.engine.events import Event


def writes(*values: str, run: str = "run") -> Event:
    return Event.unnumbered(run, CUSTOM_WRITES, {"node": "n", "attempt": "a", "offset": 0, "writes": list(values)})


@pytest.mark.parametrize(
    "values", [["1"], ["2" * 3000] * 7, ['"' + '\\"' * 30_000 + '"'], ['"' + "ö" * 30_000 + '"', "3", '"😀"' * 9000]]
)
def test_writes_of_any_length_are_the_same_elsewhere(values: list[str]) -> None:
    payloads = list(payloads_of("run", [writes(*values)]))
    assert all(len(each.encode()) <= MOST_BYTES for each in payloads)
    reader = PayloadReader()
    parts = [part.payload or {} for each in payloads for part in reader.chunks_of(each)]
    assert [write for part in parts for write in part["writes"]] == values
    starts = [sum(len(part["writes"]) for part in parts[:number]) for number in range(len(parts))]
    assert [part["offset"] for part in parts] == starts


def test_of_a_write_in_pieces_some_of_which_are_missing_nothing_is_told() -> None:
    long, said = '"' + "x" * 20_000 + '"', {"node": "n", "message_id": "m", "offset": 0, "text": "Hello"}
    pieces = list(payloads_of("run", [writes(long)]))
    others = list(payloads_of("other", [writes(long, run="other")]))
    reader = PayloadReader()
    for left_out in range(len(pieces)):
        for payload in [*pieces[:left_out], *pieces[left_out + 1 :]]:
            assert reader.chunks_of(payload) == []
    # Another run's pieces in between are not taken for the rest of it.
    for payload in [*pieces[:1], *others[1:]]:
        assert reader.chunks_of(payload) == []
    [whole] = [part for payload in others for part in reader.chunks_of(payload)]
    assert (whole.run_id, whole.payload) == ("other", writes(long).payload)
    [payload] = payloads_of("run", [Event.unnumbered("run", TOKEN_CHUNK, said)])
    assert [part.payload for part in reader.chunks_of(payload)] == [said]


@pytest.mark.parametrize("length", [10, 20_000])
def test_what_callbacks_tell_goes_only_in_texts_that_the_release_before_passes_over(length: int) -> None:
    """That one takes for chunks what begins as JSON does, and fails at those of a kind that it does not know."""
    said = {"node": "n", "message_id": "m", "offset": 0, "text": "Hello"}
    called = {"claim": "c", "about": "{}", "offset": 0, "data": ['"' + "x" * length + '"']}
    events = [Event.unnumbered("run", *each) for each in ((CALLBACK_EVENTS, called), (TOKEN_CHUNK, said))]
    payloads = list(payloads_of("run", events))
    assert all(len(each.encode()) <= MOST_BYTES for each in payloads)
    reader, earlier = PayloadReader(), PayloadReader()
    found = [(part.kind, part.payload) for each in payloads for part in reader.chunks_of(each)]
    assert found == [(CALLBACK_EVENTS, called), (TOKEN_CHUNK, said)]
    assert {part.kind for each in payloads if each.startswith("{") for part in earlier.chunks_of(each)} <= {TOKEN_CHUNK}
    assert not any(each.startswith(CALLED) for each in payloads_of("run", events[1:]))
