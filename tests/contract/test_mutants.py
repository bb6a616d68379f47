"""The list of lines that `make mutants` breaks: each is there, is another line when broken, and has tests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutant import Mutant, MutantGone, listed

ROOT = Path(__file__).parents[2]
MUTANTS = listed()
LEAST = 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_line_and_its_tests_are_there(mutant: Mutant) -> None:
    whole = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert mutant.apply(whole) != whole
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{test} is gone"
        assert (ROOT / path).is_file(), f"{test} is gone"


def test_every_service_has_some() -> None:
    of = Counter(mutant.file.split("/")[1] for mutant in MUTANTS)
    deployed = {path.parent.name for path in (ROOT / "services").glob("*/servicer.py")}
    assert len(MUTANTS) >= LEAST
    assert deployed <= set(of)


def test_a_line_that_is_gone_or_there_twice_is_said() -> None:
    mutant = Mutant("a.py", "something", "if x:", "if y:", ("tests/a.py",))
    assert mutant.apply("  if x:\n    pass\n") == "  if y:\n    pass\n"
    with pytest.raises(MutantGone, match="the line is gone"):
        mutant.apply("if z:\n")
    with pytest.raises(MutantGone, match="2 times"):
        mutant.apply("if x:\nif x:\n")
    second = Mutant("a.py", "something", "if x:", "if y:", ("tests/a.py",), after="def b():")
    assert second.apply("if x:\ndef b():\nif x:\n") == "if x:\ndef b():\nif y:\n"
