"""Unit tests are pure: one that opens a socket or starts a program fails here, and belongs in tests/integration."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

# As Python itself reports them, whichever library asks (https://docs.python.org/3/library/audit_events.html).
_IMPURE = frozenset(
    ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.posix_spawn", "os.system")
)
# gRPC has its sockets beneath Python.
_GRPC = ("server", "insecure_channel", "secure_channel")
_running: list[str] = []


def _refuse(event: str, _arguments: tuple[object, ...]) -> None:
    if _running and event in _IMPURE:
        pytest.fail(f"a unit test asks for {event}; one that needs it belongs in tests/integration")


sys.addaudithook(_refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Refuses sockets and programs while a unit test runs, in its fixtures too."""
    # pytest calls this for every test of a session, wherever it is.
    if not item.nodeid.startswith("tests/unit/"):
        return (yield)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a unit test asks for gRPC; one that needs it belongs in tests/integration")

    _running.append(item.nodeid)
    try:
        with pytest.MonkeyPatch.context() as patch:
            if "grpc.aio" in sys.modules:
                for name in _GRPC:
                    patch.setattr(sys.modules["grpc.aio"], name, refuse)
            return (yield)
    finally:
        _running.clear()
