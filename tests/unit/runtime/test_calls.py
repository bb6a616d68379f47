"""What nodes may call: one that acts asks no model."""

from __future__ import annotations

import pytest

from services.runtime.errors import ModelNotAllowed
from services.runtime.routing.calls import collecting, noting


def test_a_node_that_acts_gets_no_model() -> None:
    with collecting(acts=True) as calls:
        with pytest.raises(ModelNotAllowed), noting("model", "any"):
            pytest.fail("the model was asked")
        with noting("tool", "add_node"):
            pass
    assert [(call["kind"], call["name"]) for call in calls] == [("tool", "add_node")]


def test_other_nodes_may_ask_one() -> None:
    with collecting() as calls, noting("model", "any"):
        pass
    assert [call["kind"] for call in calls] == ["model"]


def test_calls_of_models_carry_the_prompts_that_they_were_made_with() -> None:
    with collecting(prompts="abc") as calls:
        with collecting() as inner, noting("model", "any"):
            pass
        with noting("model", "asked by a service", service="guard"), noting("tool", "any"):
            pass
    assert [call.get("prompts") for call in [*inner, *calls]] == ["abc", None, None]
