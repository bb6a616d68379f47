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

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Sets the parent-death signal and executes; ends with 70 when the launcher is already gone."""
    launcher, separator, *command = arguments
    if separator != "--" or not command:
        sys.exit("usage: tether.py <launcher's pid> -- <program> <argument>…")
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            sys.exit(f"prctl(PR_SET_PDEATHSIG) failed: {os.strerror(ctypes.get_errno())}")
        if os.getppid() != int(launcher):
            sys.exit(70)  # The launcher died before the signal was set.
    os.execv(command[0], command)  # noqa: S606 - becoming another program is the purpose


if __name__ == "__main__":
    main(sys.argv[1:])
