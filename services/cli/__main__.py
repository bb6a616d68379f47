"""Entry of the `signalbox` command."""

from services.cli.app import app


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    main()
