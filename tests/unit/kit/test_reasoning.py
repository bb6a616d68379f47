"""What a model thinks aloud is no part of what it says."""

from __future__ import annotations

import pytest

from services.kit.models.reasoning import without_reasoning
from tests.fixtures.cost import growth


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Three.", "Three."),
        ("a < b, and b > [c]", "a < b, and b > [c]"),
        ("<think>Let me count.</think>\n\nThree.", "Three."),
        ("<THINKING>hm</THINKING>Three.", "Three."),
        ('<reasoning effort="low">hm</reasoning> Three.', "Three."),
        ("[THINK]hm[/THINK]Three.", "Three."),
        ("◁think▷hm◁/think▷Three.", "Three."),
        ("Let me count.</think>Three.", "Three."),
        ("<think>a<think>b</think>c</think>Three.", "Three."),
        ("Well: <think>hm</think>Three.", "Well: Three."),
        ("<think>one</think>Three <think>two</think>devices.", "Three devices."),
        ("<think>It never ends, ALLOW", ""),
        ("<think></think>", ""),
        (
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Three.<|return|>",
            "Three.",
        ),
        ("analysisWe count them.assistantfinalThree.", "Three."),
        ("analysis of assistantfinal words", "analysis of assistantfinal words"),
    ],
)
def test_reasoning_is_taken_out(text: str, said: str) -> None:
    assert without_reasoning(text) == said


@pytest.mark.parametrize("unit", ["<think>", "</think>", "<think>a</think>", "<|channel|>", "<think ", "< "])
def test_the_cost_is_linear(unit: str) -> None:
    assert growth(lambda size: without_reasoning(unit * size), 4000, 8) < 3
