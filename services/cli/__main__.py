"""Entry of the `signalbox` command."""

import sys

_USAGE = 2
_INTERRUPTED = 130


def main() -> None:
    """Runs the command."""
    if any(not _is_text(argument) for argument in sys.argv):
        print("error: an argument is not UTF-8 text", file=sys.stderr)
        raise SystemExit(_USAGE)
    try:
        # Takes a moment, in which Ctrl-C is one too.
        from services.cli.streams import prepare_streams

        prepare_streams()
        from services.cli.app import app
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    app()


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


if __name__ == "__main__":
    main()
