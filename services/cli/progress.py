"""What a run is doing, shown on standard error while it runs: a spinner on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.status import Status
from rich.text import Text
from signalbox.v1 import runs_pb2

from services.cli.explain import END
from services.cli.speech import Speech
from services.kit.text.printing import printable
from services.kit.text.words import duration, state_name
from services.kit.wire.event_kinds import DECISION, NODE_COMPLETED, STATE_CHANGED


class Progress(Protocol):
    """Is told what happens, while its context lasts."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, message: str) -> None:
        """Shows a message of the command itself."""

    def event(self, event: runs_pb2.RunEvent) -> None:
        """Shows an event of a run."""


class Spinner:
    """A spinner with the latest, and below it what models say while they say it; all is gone at the end."""

    def __init__(self, console: Console) -> None:
        self._status = Status("starting", console=console)
        self._doing = Text("starting")
        self._speech = Speech()
        # Higher, it would leave what it has shown behind.
        self._most_lines = max(1, console.height - 4)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def say(self, message: str) -> None:
        """Shows a message."""
        self._show(Text(message))

    def event(self, event: runs_pb2.RunEvent) -> None:
        """Shows what the run does next, or says."""
        self._speech.take(event)
        doing = now_doing(event)
        self._show(Text(doing) if doing else self._doing)

    def _show(self, doing: Text) -> None:
        self._doing = doing
        if not self._speech.text:
            self._status.update(doing)
            return
        console = self._status.console
        said = Text(self._speech.text, style="dim").wrap(console, max(1, console.width - 4))[-self._most_lines :]
        self._status.update(Group(doing, *said))


class Lines:
    """A line for each thing that happened."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to take down."""

    def say(self, message: str) -> None:
        """Prints a message."""
        self._console.print(Text(message))

    def event(self, event: runs_pb2.RunEvent) -> None:
        """Prints what happened."""
        if happened := what_happened(event):
            self._console.print(Text(happened))


class Spoken:
    """Other progress, and what models say in a stream of its own, as plain text."""

    def __init__(self, progress: Progress, say: Callable[[str], object]) -> None:
        self._progress = progress
        self._say = say
        self._speech = Speech()
        self._last = ""

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_line()
        self._progress.__exit__(kind, error, trace)

    def say(self, message: str) -> None:
        """Shows a message."""
        self._progress.say(message)

    def event(self, event: runs_pb2.RunEvent) -> None:
        """Says what a message goes on with, each message on lines of its own."""
        added = self._speech.take(event)
        if added:
            if self._last not in ("", event.token_chunk.message_id):
                self._end_line()
            self._last = event.token_chunk.message_id
            self._say(added)
            return
        if event.sequence:
            self._end_line()
        if event.tokens_reset.cause == runs_pb2.TOKENS_RESET_CAUSE_WITHDRAWN or (
            self._last and event.tokens_reset.cause == runs_pb2.TOKENS_RESET_CAUSE_RERUN
        ):
            self._end_line()
            self._progress.say("what was said so far no longer stands")
        self._progress.event(event)

    def _end_line(self) -> None:
        if self._last:
            self._say("\n")
        self._last = ""


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to take down."""

    def say(self, message: str) -> None:
        """Says nothing."""

    def event(self, event: runs_pb2.RunEvent) -> None:
        """Says nothing."""


def progress_on(console: Console, *, silent: bool = False, say: Callable[[str], object] | None = None) -> Progress:
    """The progress that suits a console; `say` takes what models say where that is to be printed."""
    if silent:
        return Silent()
    if console.is_terminal and say is None:
        return Spinner(console)
    return Spoken(Lines(console), say) if say else Lines(console)


def now_doing(event: runs_pb2.RunEvent) -> str:
    """What a run does after an event; empty when the event doesn't tell."""
    kind = event.WhichOneof("event")
    if kind == STATE_CHANGED:
        return _state(event.state_changed)
    if kind == DECISION and event.decision.destination != END:
        return f"{printable(event.decision.destination)}  ({printable(event.decision.rule)})"
    return ""


def _state(changed: runs_pb2.StateChanged) -> str:
    if changed.waiting_for:
        return f"waiting for the {printable(changed.waiting_for)}, which is away ({printable(changed.cause)})"
    return state_name(changed.state).lower().replace("_", " ")


def what_happened(event: runs_pb2.RunEvent) -> str:
    """An event in a line; empty for those that another line tells already."""
    kind = event.WhichOneof("event")
    if kind == STATE_CHANGED:
        return _state(event.state_changed)
    if kind == NODE_COMPLETED:
        node = event.node_completed
        return f"{printable(node.node)} took {duration(node.elapsed_ms)}"
    if kind == DECISION:
        destination = "the end" if event.decision.destination == END else printable(event.decision.destination)
        took = f"{printable(event.decision.node)} took {duration(event.decision.node_elapsed_ms)}"
        # A path function's rule is the name that it returned.
        named = event.decision.rule == event.decision.destination
        return f"{took} → {destination}" if named else f"{took}: {printable(event.decision.rule)} → {destination}"
    return ""
