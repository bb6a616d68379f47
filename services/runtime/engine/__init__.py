"""The life of a run: claims, checkpoints, events, takeover, drain."""
