"""Screens a question before anything else sees it."""
