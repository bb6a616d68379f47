"""Numbers of JSON: whole ones stay whole as far as a message keeps them exactly."""

from __future__ import annotations

import orjson
import pytest

from services.http_api.json_bodies import json_of, struct_of
from services.kit.wire.carried_json import EXACT, NotCarriedError, check_carried


@pytest.mark.parametrize("number", [0, 1, -7, 2.5, EXACT, -EXACT, 2.0**64, 1e300])
def test_a_number_comes_back_as_it_was_sent(number: float) -> None:
    check_carried({"n": [number]})
    found = json_of(struct_of({"n": [number]}))
    assert found == {"n": [number]}
    assert orjson.loads(orjson.dumps(found)) == found
    assert isinstance(json_of(struct_of({"n": 5}))["n"], int)


@pytest.mark.parametrize("number", [EXACT + 1, -EXACT - 1, 2**64 - 1])
def test_a_whole_number_that_would_change_is_refused(number: int) -> None:
    with pytest.raises(NotCarriedError, match="send it as text"):
        check_carried({"n": [number]})
