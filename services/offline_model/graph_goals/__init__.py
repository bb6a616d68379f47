"""Goals for a property graph, read by patterns: what the patterns don't cover is asked about, and not guessed."""
