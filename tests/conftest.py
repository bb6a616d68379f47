"""Fixtures that tests of every kind may use, and what every run of the tests has in common, wherever it takes place."""

import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

# Variables that steer the services, the command, or a library beneath them. Tests set what they mean to.
_STEERING = (
    "SIGNALBOX_", "OPENAI_", "LANGCHAIN_", "LANGSMITH_", "LANGGRAPH_", "OTEL_", "PG", "GRPC_",
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE",
    "GIT_CEILING_DIRECTORIES", "GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG", "GIT_TEMPLATE_DIR", "GIT_DEFAULT_",
)  # fmt: skip
# Everything is on loopback, which no proxy reaches.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
# What Rich and Typer take for word of a terminal.
_TERMINAL = (
    "FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE",
    "TTY_INTERACTIVE", "COLUMNS", "LINES",
)  # fmt: skip
# How much harm the chaos tests do is chosen by these; where certificates are is the machine's own business.
_KEPT = ("SIGNALBOX_CHAOS_", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")

# Nobody's own configuration of git, which may sign, run hooks or copy templates; and a checkout may be another user's.
_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}


def _forget_the_machine() -> None:
    for name in list(os.environ):
        steers = name.startswith(_STEERING) or name.upper() in _PROXIES or name in _TERMINAL
        if steers and not name.startswith(_KEPT):
            del os.environ[name]
    os.environ |= _GIT
    # Without files of bytecode each process of each platform would compile all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


_forget_the_machine()

# Each worker has a cluster of Postgres with a database a test: on a disk, making their files is a third of all CPU.
_MEMORY = "/dev/shm"  # noqa: S108 - those who make files there draw their names
_MEMORY_BYTES = 8 << 30


def _keep_temporary_files_in_memory() -> None:
    try:
        memory = os.statvfs(_MEMORY)
    except OSError:
        return
    roomy = memory.f_bavail * memory.f_frsize >= _MEMORY_BYTES
    # Programs are started from there, too.
    if roomy and not memory.f_flag & os.ST_NOEXEC and os.access(_MEMORY, os.W_OK):
        os.environ.setdefault("TMPDIR", _MEMORY)
        tempfile.tempdir = None  # which pytest has asked for already


_keep_temporary_files_in_memory()

# The same examples in every run, however slow the machine; `--hypothesis-profile=default` looks for others.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# Rich would show every local variable of a traceback, which holds up an event loop for seconds, and on a busy machine
# for longer than a caller waits.
_plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], _plain])

# In the background of a shell SIGINT is ignored, and every process that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What is collected stays until the end: looking through it again and again would take a third of the time.
gc.disable()

pytest_plugins = [
    "tests.fixtures.graph_database",
    "tests.fixtures.postgres",
    "tests.fixtures.platform",
    "tests.fixtures.times",
    "tests.fixtures.workers",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--service`, which `make test SERVICE=…` gives."""
    parser.addoption("--service", help="Of the contract tests, run those that name this service.")


def pytest_collection_finish() -> None:
    """Collects garbage from here on, without what stays anyway."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the contract tests that are not about the service that was asked for."""
    service, contract = config.getoption("--service"), Path(__file__).parent / "contract"
    if not service:
        return
    left_out = [item for item in items if item.path.is_relative_to(contract) and service not in item.name]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
