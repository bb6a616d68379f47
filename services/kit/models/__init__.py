"""Calling a model: the request, what it leaves behind, and what is read from its answer."""
