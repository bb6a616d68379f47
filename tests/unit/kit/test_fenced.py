"""JSON that a model wrapped in a fence."""

from __future__ import annotations

import pytest

from services.kit.models.fenced import unfenced


@pytest.mark.parametrize("text", ["```json\n{}\n```", "```\n{}\n```", " ```json \n{}\n ```\n", "```json\r\n{}\r\n```"])
def test_one_fence_is_taken_off(text: str) -> None:
    assert unfenced(text).strip() == "{}"


@pytest.mark.parametrize(
    "text", ["{}", "", "```", "``````", "```json```", "```\n{}", "{}\n```", "```sql\n{}\n```", "````"]
)
def test_what_is_in_no_fence_stays(text: str) -> None:
    assert unfenced(text) == text


def test_what_goes_on_after_a_fence_is_not_cut() -> None:
    assert unfenced("```\n{}\n```\n```\n[]\n```") == "{}\n```\n```\n[]\n"
    assert unfenced("```" + "\n" * 100_000 + "x").endswith("x")
