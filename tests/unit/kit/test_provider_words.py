"""What an endpoint says no with reaches a person, and what it must not say does not."""

from __future__ import annotations

import json

import pytest

from services.kit.models.provider_words import HIDDEN, LONGEST, provider_words

TOO_LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"message": TOO_LONG, "type": "invalid_request_error", "code": "context_length_exceeded"}},
        {"error": TOO_LONG},
        {"message": TOO_LONG},
        {"detail": TOO_LONG},
        {"error": {"error": {"message": TOO_LONG}}},
    ],
)
def test_the_message_is_found_wherever_endpoints_put_it(answer: object) -> None:
    assert provider_words(json.dumps(answer).encode()) == TOO_LONG


def test_what_is_no_json_is_given_as_it_is() -> None:
    assert provider_words(b"no such model\n") == "no such model"
    assert provider_words(b"\xff\xfe") == "\ufffd\ufffd"
    assert provider_words(b"") == ""


@pytest.mark.parametrize(
    "said",
    [
        "Incorrect API key provided: sk-proj-abc***xyz. Find yours online.",
        "Authorization header was 'Bearer abc.def.ghi'",
        "api_key=0123abc is unknown",
        "the key a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4 is unknown",
        "you sent hunter2",
    ],
)
def test_keys_are_hidden(said: str) -> None:
    words = provider_words(json.dumps({"error": {"message": said}}).encode(), "hunter2")
    assert HIDDEN in words
    for secret in ("sk-proj", "abc.def", "0123abc", "a1B2c3", "hunter2"):
        assert secret not in words


def test_control_characters_and_length_are_cut() -> None:
    assert provider_words(b'{"error": "a\\u0000b\\u001b[31mc\\nd"}') == "a b [31mc d"
    words = provider_words(json.dumps({"error": "long " * 1000}).encode())
    assert len(words) == LONGEST
    assert words.endswith("…")


@pytest.mark.parametrize("depth", [100, 300, 1000, 5000])
def test_what_is_nested_deep_is_given_as_it_is(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    for content in (nested, b'{"error": %s}' % nested, b'{"message": ' * depth + b'"no"' + b"}" * depth):
        assert len(provider_words(content)) in range(2, LONGEST + 1)


def test_what_was_written_to_be_long_to_read_is_read() -> None:
    assert len(provider_words(b"-1" * 500_000)) == 500
