"""Judges what agents found: mechanical checks first, then a model."""
