"""The offline reviewer must call none of these programs harmless: each is weak when it runs."""

from __future__ import annotations

import pytest

from services.offline_model.code_review.opinion import FALSE_POSITIVE
from tests.unit.offline_model.hostile import (
    attributes,
    hidden_callers,
    kinds,
    letters,
    names,
    not_read,
    objects,
    uses,
    ways,
)
from tests.unit.offline_model.reviews import REQUEST, verdict

PROGRAMS = [
    case
    for table in (
        attributes,
        hidden_callers,
        kinds,
        letters,
        names,
        not_read,
        objects,
        uses,
        ways,
    )
    for case in table.PROGRAMS
]


@pytest.mark.parametrize(("cwe", "code", "extra"), [case[1:] for case in PROGRAMS], ids=[case[0] for case in PROGRAMS])
def test_what_is_weak_when_it_runs_is_not_called_harmless(cwe: str, code: str, extra: dict[str, str]) -> None:
    assert verdict(cwe, REQUEST + code.lstrip("\n"), extra=extra) != FALSE_POSITIVE
