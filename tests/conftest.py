"""Fixtures that tests of every kind may use."""

import signal

# In the background of a shell SIGINT is ignored, and every process that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.fixtures.postgres", "tests.fixtures.platform"]
