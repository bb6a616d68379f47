"""What callers search by is bounded: each name is looked for in each thing that is searched."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

from services.http_api.errors import Invalid
from services.http_api.run_request import Body, read_body
from services.http_api.store import SearchItemsBody
from services.http_api.threads import SearchBody
from services.kit.errors import InvalidRequest
from services.runtime.api.wire import MOST_NAMES, filter_of

NAMES = {f"k{number}": None for number in range(MOST_NAMES + 1)}


def struct(values: dict[str, Any]) -> Struct:
    made = Struct()
    made.update(values)
    return made


def test_so_many_names_of_so_many_bytes_are_taken() -> None:
    few = dict(list(NAMES.items())[1:])
    assert filter_of(struct(few), "filter") == few
    for much in (NAMES, {"k": "x" * 8192}, {"k": {f"k{number}": None for number in range(1000)}}):
        with pytest.raises(InvalidRequest, match="filter: holds at most 20 names"):
            filter_of(struct(much), "filter")


@pytest.mark.parametrize(("body", "name"), [(SearchItemsBody, "filter"), (SearchBody, "metadata")])
def test_as_many_are_taken_over_http(body: type[Body], name: str) -> None:
    read_body(body, {name: dict(list(NAMES.items())[1:])})
    with pytest.raises(Invalid):
        read_body(body, {name: NAMES})
