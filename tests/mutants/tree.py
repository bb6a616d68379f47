"""Copies of the working tree, in which lines are broken; the tree itself is never touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.forked import program
from tests.mutants.mutant import Mutant

# One test that hangs is one that noticed; what hangs beyond that is not a test, and is reported.
TEST_TIMEOUT_S = 60
RUN_TIMEOUT_S = 300
# All of the tests that noticed, once.
WHOLE_TIMEOUT_S = 1800
# By the process from which each run of pytest is forked: most of a run was imports.
_IMPORTED = ("pytest", "hypothesis", "pytest_asyncio", "pytest_timeout")
_PYTEST = ("-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist")
_FAILED = 1


class NotRun(Exception):
    """The tests did not come to an end by which a mutant could be judged."""


@dataclass(frozen=True)
class Tree:
    """A copy of the working tree."""

    root: Path

    @classmethod
    def copy(cls, source: Path, root: Path) -> Tree:
        """Copies all files that git tracks or would, with their times."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=source, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            if (source / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, root / name)
        # By the hash of their source: a file that was broken and mended within a second is never taken for the other.
        compiling = (
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode",
            "checked-hash",
            "services",
            "tests",
            "protos/python",
        )
        subprocess.run([sys.executable, *compiling], cwd=root, check=True)
        return cls(root)

    def text(self, mutant: Mutant) -> str:
        """Returns the text of a mutant's file."""
        return (self.root / mutant.file).read_text(encoding="utf-8")

    @contextmanager
    def broken(self, mutant: Mutant) -> Iterator[None]:
        """Breaks a line inside the context. Raises MutantGone."""
        path = self.root / mutant.file
        whole, times = self.text(mutant), path.stat()
        path.write_text(mutant.apply(whole), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(whole, encoding="utf-8")
            # As it was for Python too, which knows compiled files by the time of their source.
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def check(self) -> None:
        """Makes sure that what is imported here is the copy. Raises NotRun."""
        asked = "import services.kit.telemetry.names as names; print(names.__file__)"
        found = self._run([*program("timeit", _IMPORTED), "-n1", "-r1", asked], RUN_TIMEOUT_S).stdout.partition("\n")[0]
        if not Path(found).is_relative_to(self.root):
            raise NotRun(f"the tests would run on {found} and not on the copy in {self.root}")

    def noticing(self, tests: Sequence[str]) -> str:
        """Runs tests until one fails, and returns which did; empty: none. Raises NotRun."""
        failed = self._failing(["-x", f"--timeout={TEST_TIMEOUT_S}", *tests], RUN_TIMEOUT_S)
        return next(iter(failed), "")

    def failing(self, tests: Sequence[str]) -> list[str]:
        """Runs tests, and returns those that fail. Raises NotRun."""
        return self._failing(tests, WHOLE_TIMEOUT_S) if tests else []

    def _failing(self, arguments: Sequence[str], timeout_s: float) -> list[str]:
        ran = self._run([*program("pytest", _IMPORTED), *_PYTEST, "-rfE", *arguments], timeout_s)
        lines = [line.partition(" ") for line in ran.stdout.splitlines()]
        # Without its parameters, which may hold anything, and without why.
        told = [rest.partition("[")[0].partition(" ")[0] for word, _, rest in lines if word in ("FAILED", "ERROR")]
        if ran.returncode not in (0, _FAILED) or bool(told) is not bool(ran.returncode):
            raise NotRun(f"pytest ended with {ran.returncode}: {(ran.stdout + ran.stderr).strip()[-600:]}")
        return told

    def _run(self, arguments: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(self.root / each) for each in ("", "protos/python", "services/routing")),
            # What is compiled of a broken file is kept by nobody.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        try:
            return subprocess.run(
                arguments, cwd=self.root, env=environment, capture_output=True, text=True, timeout=timeout_s,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise NotRun(f"not over after {timeout_s:g} s") from error
