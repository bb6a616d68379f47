"""The `signalbox` command."""
