"""What a run is doing, shown on standard error while it runs: a spinner on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.status import Status
from rich.text import Text
from signalbox.v1 import runs_pb2

from services.cli.explain import END
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
    """One line with a spinner that tells the latest; it is gone at the end."""

    def __init__(self, console: Console) -> None:
        self._status = Status("starting", console=console)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def say(self, message: str) -> None:
        """Shows a message."""
        self._status.update(Text(message))

    def event(self, event: runs_pb2.RunEvent) -> None:
        """Shows what the run does next."""
        if doing := now_doing(event):
            self._status.update(Text(doing))


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


def progress_on(console: Console, *, silent: bool = False) -> Progress:
    """The progress that suits a console."""
    if silent:
        return Silent()
    return Spinner(console) if console.is_terminal else Lines(console)


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
