"""Callers' Cypher: read by a grammar of what is allowed, checked on its tree, and written anew with its filters."""
