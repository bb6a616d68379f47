"""The offline judge: whether claims say what the lines say, and whether all that they rest on is cited."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.offline_model.conversation import Conversation
from services.offline_model.skills.judge_verdict import judge_verdict

CODE = {1: "import os", 2: 'TOOL = "/bin/df"', 5: "def run():", 6: '    os.system(f"{TOOL} -h")'}
CLAIMS = ['6-6 `f"{TOOL} -h"` is all that matters', '2-2 `TOOL = "/bin/df"` sets TOOL']


def judged(
    *claims: str, verdict: str = "FALSE_POSITIVE", code: dict[int, str] | None = None, why: str = "", **more: Any
) -> tuple[str, list[str]]:
    """Outcome and what is missing, of claims such as `6-6 what they say`."""
    places = [claim.split(" ", 1) for claim in claims]
    case = {
        "task": "critique",
        "finding": {"file": "app/service.py", "first_line": 6, "last_line": 6},
        "draft": {
            "verdict": verdict,
            "justification": why,
            "claims": [{"claim": said, "lines": f"app/service.py:{lines}"} for lines, said in places],
        },
        "code_bank": [{"file": "app/service.py", "code": [f"{n} | {t}" for n, t in (code or CODE).items()]}],
        **more,
    }
    answer = judge_verdict(Conversation(case, (), (), must_call=False))
    told = json.loads(answer.text)
    return told["outcome"], told["missing"]


def test_what_the_lines_say_is_approved() -> None:
    assert judged(*CLAIMS) == ("approved", [])


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        (CLAIMS[:1], CODE),
        (CLAIMS[1:], CODE),
        ([CLAIMS[0], '2-2 `TOOL = "/bin/ls"` sets TOOL'], CODE),
        ([CLAIMS[0], '1-1 `TOOL = "/bin/df"` sets TOOL'], CODE),
        ([CLAIMS[0], "2-2 TOOL is set to a literal"], CODE),
        (CLAIMS, {**CODE, 3: "TOOL = input()"}),
        (CLAIMS, {**CODE, 3: "from app.conf import TOOL"}),
        (CLAIMS, {**CODE, 4: "for TOOL in tools: pass"}),
        (['6-6 `str(int(n))` is a number', "5-5 `def run(n):` binds n"],
         {5: "def run(n):", 6: "    os.system(str(int(n)))", 8: "def int(text):", 9: "    return text"}),
    ],
    ids=range(9),
)  # fmt: skip
def test_what_is_not_shown_or_not_all_is_not_approved(claims: list[str], code: dict[int, str]) -> None:
    outcome, missing = judged(*claims, code=code)
    assert outcome == "needs_reanalysis"
    assert missing


def test_texts_bind_no_names() -> None:
    assert judged(*CLAIMS, code={**CODE, 3: 'QUERY = "WHERE TOOL = ?"'}) == ("approved", [])


def test_names_of_other_functions_do_not_matter() -> None:
    assert judged(*CLAIMS, code={**CODE, 8: "def other(TOOL):", 9: "    TOOL = 3"}) == ("approved", [])


def test_what_was_asked_for_and_not_read_is_research() -> None:
    why = "The file was not read whole. Missing: lines of app/service.py:401."
    assert judged(verdict="NEEDS_REVIEW", why=why)[0] == "needs_research"
    assert judged(verdict="NEEDS_REVIEW", why=why, code={**CODE, 401: "x = 1"})[0] == "approved"
    assert judged(*CLAIMS, lines_left_out=3)[0] == "needs_research"


def test_another_prompt_is_answered_honestly() -> None:
    assert judge_verdict(Conversation({}, (), (), must_call=False)).text == "I was shown no case."
