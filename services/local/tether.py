"""Ties a program's life to its launcher's, then becomes that program.

    python -I -S tether.py <launcher's pid> -- <program> <argument>…

The kernel kills the program when the launcher ends, however it ends: a `kill -9` of the launcher leaves nothing behind.
This is a program of its own, not a `preexec_fn`, because code that runs between fork and exec is not safe beside the
threads of gRPC. The setting survives the exec. The signal is SIGKILL: a frozen program obeys nothing less.
"""

import ctypes
import os
import signal
import sys

TETHER = __file__
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


def end_with(launcher: int) -> None:
    """Has the kernel kill this process when its parent ends; ends with 70 when that is the launcher no more."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:
        sys.exit(70)  # The launcher died before the signal was set.


def name_process(name: str) -> None:
    """Sets the name by which `ps` and `top` show this process, of which the kernel keeps 15 bytes."""
    _prctl(PR_SET_NAME, name.encode())


def _prctl(option: int, value: int | bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        sys.exit(f"prctl({option}) failed: {os.strerror(ctypes.get_errno())}")


def main(arguments: list[str]) -> None:
    """Ties this process to its launcher, and executes."""
    launcher, separator, *command = arguments
    if separator != "--" or not command:
        sys.exit("usage: tether.py <launcher's pid> -- <program> <argument>…")
    end_with(int(launcher))
    os.execv(command[0], command)  # noqa: S606 - becoming another program is the purpose


if __name__ == "__main__":
    main(sys.argv[1:])
