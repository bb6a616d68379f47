"""Entry of the `signalbox` command."""

import os
import sys

_USAGE = 2
_INTERRUPTED = 130

try:
    import signal
except KeyboardInterrupt:
    os._exit(_INTERRUPTED)


def main() -> None:
    """Runs the command."""
    # Imports take a moment, in which Ctrl-C is one too. As an exception, code that they run may take it for another.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _leave)
    if any(not _is_text(argument) for argument in sys.argv):
        print("error: an argument is not UTF-8 text", file=sys.stderr)
        raise SystemExit(_USAGE)
    from services.cli.streams import prepare_streams

    prepare_streams()
    from services.cli.app import app

    try:
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        app()
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    except OSError as error:  # of what is printed outside of a command's work, such as --help
        print(f"error: can't go on: {error}", file=sys.stderr)
        raise SystemExit(_USAGE) from None
    finally:
        if interruptible:
            signal.signal(signal.SIGINT, _leave)


def _leave(*_: object) -> None:
    """Ends the process at once: nothing has begun that would have to be ended in order, or all of it is."""
    os._exit(_INTERRUPTED)


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


if __name__ == "__main__":
    main()
