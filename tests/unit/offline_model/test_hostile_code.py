"""Weaknesses that look like none: the offline reviewer must not call any of them a false positive."""

from __future__ import annotations

import pytest

from services.offline_model.code_review.opinion import FALSE_POSITIVE
from tests.unit.offline_model.false_protections import FALSE_PROTECTIONS
from tests.unit.offline_model.reviews import REQUEST, verdict
from tests.unit.offline_model.unseen_flows import UNSEEN_FLOWS

CASES = [*UNSEEN_FLOWS, *FALSE_PROTECTIONS]


@pytest.mark.parametrize(("cwe", "code"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_not_shown_to_be_harmless_is_not_called_so(cwe: str, code: str) -> None:
    assert verdict(cwe, REQUEST + code.lstrip("\n")) != FALSE_POSITIVE
