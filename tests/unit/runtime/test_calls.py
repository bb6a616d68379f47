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
