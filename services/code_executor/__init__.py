"""Code tools: fetch, read, search, list and find, at an exact commit of a git repository."""
