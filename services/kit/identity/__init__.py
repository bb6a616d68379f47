"""Who calls, and for whom: callers' tokens, run tokens, the keys that sign them."""
