"""How a batch goes, on standard error: a bar with counts on a terminal, a line for each finding elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text
from signalbox.v1 import sast_pb2

from services.findings.sarif.outcome import Outcome, Verdict
from services.kit.text.printing import printable

COLOURS = {Verdict.TRUE_POSITIVE: "red", Verdict.FALSE_POSITIVE: "green", Verdict.NEEDS_REVIEW: "yellow"}
SHORT = {Verdict.TRUE_POSITIVE: "true", Verdict.FALSE_POSITIVE: "false", Verdict.NEEDS_REVIEW: "review"}


class BatchView(Protocol):
    """Is told how a batch goes, while its context lasts."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def started(self, finding: sast_pb2.Finding) -> None: ...

    def done(self, finding: sast_pb2.Finding, outcome: Outcome) -> None: ...

    def say(self, message: str) -> None: ...


class Tally:
    """What a batch has come to so far."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.verdicts: Counter[Verdict] = Counter()
        self.failed = 0
        self.tokens = 0
        self._start = time.monotonic()

    def add(self, outcome: Outcome) -> None:
        """Counts an outcome."""
        if outcome.error:
            self.failed += 1
        else:
            self.verdicts[outcome.verdict] += 1
        self.tokens += outcome.input_tokens + outcome.output_tokens

    @property
    def done(self) -> int:
        """Findings with an outcome."""
        return self.failed + self.verdicts.total()

    @property
    def words(self) -> str:
        """Counts by verdict, and tokens."""
        counts = [f"{self.verdicts[verdict]} {SHORT[verdict]}" for verdict in Verdict]
        failed = [f"{self.failed} failed"] if self.failed else []
        return " · ".join([*counts, *failed, f"{self.tokens:,} tokens"])

    @property
    def remaining_s(self) -> float:
        """Seconds that the rest will take, going by what is done; 0 before anything is."""
        return (time.monotonic() - self._start) / self.done * (self.total - self.done) if self.done else 0.0


class Bar:
    """A bar for a terminal; it stays, full, at the end."""

    def __init__(self, console: Console, total: int) -> None:
        self._tally = Tally(total)
        self._progress = Progress(
            TextColumn("[bold]findings"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
        )
        self._task = self._progress.add_task("findings", total=total, counts=self._tally.words)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def started(self, finding: sast_pb2.Finding) -> None:
        """The bar counts what is done."""

    def done(self, finding: sast_pb2.Finding, outcome: Outcome) -> None:  # noqa: ARG002 - the protocol's
        """Moves on."""
        self._tally.add(outcome)
        self._progress.update(self._task, completed=self._tally.done, counts=self._tally.words)

    def say(self, message: str) -> None:
        """Prints a message above the bar."""
        self._progress.console.print(Text(message))


class Lines:
    """A line for each finding, for logs."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._tally = Tally(total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to take down."""

    def started(self, finding: sast_pb2.Finding) -> None:
        """A line comes when it is done."""

    def done(self, finding: sast_pb2.Finding, outcome: Outcome) -> None:
        """Prints what came of a finding."""
        self._tally.add(outcome)
        place = f"{finding.location.file}:{finding.location.first_line}"
        sure = f" ({outcome.decided_by})" if outcome.decided_by else ""
        sure = sure if outcome.confidence is None else f" ({outcome.confidence:.2f})"
        result = f"failed: {outcome.error}" if outcome.error else f"{outcome.verdict}{sure}"
        count = f"[{self._tally.done}/{self._tally.total}]"
        left = f"about {self._tally.remaining_s:.0f} s left" if self._tally.done < self._tally.total else "done"
        self.say(f"{count} {finding.rule_id} {place}: {result}; {self._tally.words}; {left}")

    def say(self, message: str) -> None:
        """Prints a message."""
        self._console.print(Text(printable(message)), soft_wrap=True)


def view_on(console: Console, total: int) -> BatchView:
    """The view that suits a console."""
    return Bar(console, total) if console.is_terminal else Lines(console, total)
