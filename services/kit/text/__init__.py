"""Texts that people, models and repositories write: how they are read, compared and printed."""
