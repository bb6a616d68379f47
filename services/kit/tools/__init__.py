"""Serving tools: what every call is checked for, effects once, the tools' names."""
