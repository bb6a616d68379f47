"""`make mutants`: breaks each listed line once, and fails for those that the nearest tests do not notice.

Of those tests, what noticed has to pass with nothing broken; the others prove nothing here, and are `make test`'s.

python -m tests.mutants [WORD …]     only mutants with one of the words in their file or in what they guard
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutant import Mutant, MutantGone, listed
from tests.mutants.tree import NotRun, Tree

ROOT = Path(__file__).parents[2]
NOTICED, SURVIVED, NOT_JUDGED = "noticed", "SURVIVED", "NOT JUDGED"


def main(words: Sequence[str]) -> int:
    """Returns 0 when every chosen mutant was noticed."""
    chosen = [mutant for mutant in listed() if not words or any(word in mutant.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="signalbox-mutants-") as folder:
        trees = [Tree.copy(ROOT, Path(folder) / str(number)) for number in range(min(2, os.cpu_count() or 1))]
        if problems := list(_problems(trees[0], chosen)):
            print(*problems, sep="\n")
            return 1
        began = time.monotonic()
        noticed_by = dict(_judge(trees, chosen))
        noticing = {test for test in noticed_by.values() if test}
        if failing := _failing(trees, sorted(noticing)):
            print("these fail with nothing broken, and can notice nothing:", *failing, sep="\n")
            return 1
    left = len(noticed_by) - sum(map(bool, noticed_by.values()))
    print(f"{len(noticed_by)} lines broken, {left} not noticed, in {time.monotonic() - began:.0f} s")
    return 1 if left or not noticed_by else 0


def _problems(tree: Tree, mutants: Sequence[Mutant]) -> Iterator[str]:
    """Yields why mutants can't be judged: lines and tests that are gone."""
    try:
        tree.check()
    except NotRun as error:
        yield str(error)
        return
    for mutant in mutants:
        try:
            mutant.apply(tree.text(mutant))
        except (MutantGone, FileNotFoundError) as error:
            yield str(error)
    for test in dict.fromkeys(test for mutant in mutants for test in mutant.tests):
        if not (tree.root / test.partition("::")[0]).is_file():
            yield f"{test} is not there"


def _failing(trees: Sequence[Tree], tests: Sequence[str]) -> list[str]:
    """Returns which of the tests fail with nothing broken; those of one file run in one tree."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    shares = [[test for test in tests if test.partition("::")[0] in files[n :: len(trees)]] for n in range(len(trees))]
    with ThreadPoolExecutor(len(trees)) as pool:
        try:
            return [failed for found in pool.map(Tree.failing, trees, shares) for failed in found]
        except NotRun as error:
            return [str(error)]


def _judge(trees: Sequence[Tree], mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Yields which test noticed each mutant; empty where none did or where none can tell."""
    free: SimpleQueue[Tree] = SimpleQueue()
    for tree in trees:
        free.put(tree)

    def judge(mutant: Mutant) -> tuple[Mutant, str]:
        tree = free.get()
        start = time.monotonic()
        try:
            with tree.broken(mutant):
                test = tree.noticing(mutant.tests)
            outcome, why = (NOTICED, f"\n    by {test}") if test else (SURVIVED, f"\n    {' '.join(mutant.tests)}")
        except NotRun as error:
            test, outcome, why = "", NOT_JUDGED, f"\n    {error}"
        finally:
            free.put(tree)
        print(f"{outcome:10} {time.monotonic() - start:5.1f} s  {mutant.name}{why}", flush=True)
        return mutant, test

    with ThreadPoolExecutor(len(trees)) as pool:
        yield from pool.map(judge, mutants)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
