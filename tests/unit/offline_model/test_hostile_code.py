"""Weaknesses that look like none: the offline reviewer must not call any of them a false positive."""

from __future__ import annotations

import ast

import pytest

from services.offline_model.code_review.opinion import FALSE_POSITIVE, NEEDS_REVIEW
from services.offline_model.code_review.prompts import read_bank
from tests.unit.offline_model.false_protections import FALSE_PROTECTIONS
from tests.unit.offline_model.reviews import COMMAND, REQUEST, verdict
from tests.unit.offline_model.unseen_flows import UNSEEN_FLOWS

CASES = [*UNSEEN_FLOWS, *FALSE_PROTECTIONS]


@pytest.mark.parametrize("end", ["\r", "<U+000D>"])
@pytest.mark.parametrize(
    "code",
    [
        'host = "localhost"  # local{end}host = request.args["host"]\nos.system("ping " + host)  # <-',
        'host = "localhost"\n# local{end}host = request.args["host"]\nos.system("ping " + host)  # <-',
        'os.system("ping localhost")  # <-\n# local{end}os = __import__("other")',
    ],
)
def test_nothing_is_harmless_where_lines_hold_other_lines(code: str, end: str) -> None:
    assert verdict(COMMAND, REQUEST + code.replace("{end}", "  # ")) == FALSE_POSITIVE
    assert verdict(COMMAND, REQUEST + code.replace("{end}", end)) == NEEDS_REVIEW
    other = {"app/other.py": f"# a{end}import os"}
    assert verdict(COMMAND, REQUEST + code.replace("{end}", "  # "), extra=other) == NEEDS_REVIEW


def test_form_feeds_are_blanks_from_which_indentation_counts() -> None:
    lines = ["import os", "<U+000C>", "host = 'localhost'", "if False:", "    pass", "  <U+000C>host =<U+000C>input()"]
    numbered = [f"{number} | {line}" for number, line in enumerate([*lines, "os.system(host)"], 1)]
    given = {"finding": {"file": "a.py", "first_line": 1, "last_line": 1}}
    bank = [{"file": "a.py", "total_lines": 7, "code": numbered}]
    shown = read_bank({**given, "code_bank": bank}).files["a.py"]
    assert [ast.unparse(one) for one in shown.statements[3:]] == ["host = input()", "os.system(host)"]


@pytest.mark.parametrize(("cwe", "code"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_not_shown_to_be_harmless_is_not_called_so(cwe: str, code: str) -> None:
    assert verdict(cwe, REQUEST + code.lstrip("\n")) != FALSE_POSITIVE
