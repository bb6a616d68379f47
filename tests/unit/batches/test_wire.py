"""Items as messages: what of a run its caller may see."""

from __future__ import annotations

import pytest
from signalbox.v1 import caller_pb2, data_chat_pb2, runs_pb2

from services.batches.records import ItemRecord, ItemState
from services.batches.wire import item_proto
from services.kit.identity.caller import Caller


@pytest.mark.parametrize(
    ("made_with", "roles", "sees"),
    [
        (["reader"], {"reader", "other"}, True),
        (["reader", "secrets"], {"reader"}, False),
        (["reader", "secrets"], {"operator"}, True),
        ([], set(), True),
        (None, {"reader"}, False),
    ],
)
def test_outputs_are_for_those_with_every_role_that_the_items_own_run_was_made_with(
    made_with: list[str] | None, roles: set[str], sees: bool
) -> None:
    output = runs_pb2.RunOutput(data_chat=data_chat_pb2.DataChatOutput(answer="42"))
    caller = None if made_with is None else caller_pb2.Caller(subject="27", roles=made_with)
    run = runs_pb2.Run(run_id="r", caller=caller, output=output).SerializeToString()
    item = ItemRecord(1, "", ItemState.SUCCEEDED, 0, "r", run, "", 1)
    sent = item_proto(item, Caller("27", frozenset(roles)), with_run=True)
    assert (sent.run.run_id, sent.run.HasField("output")) == ("r", sees)
    assert not item_proto(item, Caller("27", frozenset(roles)), with_run=False).HasField("run")
