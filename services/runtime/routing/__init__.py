"""Decision tables: what they are, how a graph follows them, and how each decision is recorded."""
