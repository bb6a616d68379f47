"""The list of lines that `make mutants` breaks: each is there, is another line when broken, and has tests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutant import Mutant, MutantGone, listed

ROOT = Path(__file__).parents[2]
MUTANTS = listed()
LEAST = 60


def test_their_lines_and_their_tests_are_there() -> None:
    gone = list[str]()
    for mutant in MUTANTS:
        try:
            mutant.apply((ROOT / mutant.file).read_text(encoding="utf-8"))
        except (MutantGone, FileNotFoundError) as error:
            gone.append(str(error))
        gone += [f"{mutant.name}: its line stays as it is" for _ in range(mutant.line == mutant.broken)]
        gone += [f"{mutant.name}: {test} is gone" for test in mutant.tests if not is_there(test)]
    assert not gone


def is_there(test: str) -> bool:
    """Says whether there is a file or, where one is named, a test."""
    path, _, name = test.partition("::")
    file = ROOT / path
    return file.is_file() and (not name or f"def {name.rpartition('::')[2]}(" in file.read_text(encoding="utf-8"))


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
