"""Trying to prove a verdict wrong: the flagged code is run, step by step, with values that an attacker would send.

Nothing here is shared with `code_review`, which reasons about all ways at once and never runs any. What it runs is its
own reading of the syntax tree: no code of a repository is imported, compiled or executed, and nothing outside a short
list of pure functions is called.
"""
