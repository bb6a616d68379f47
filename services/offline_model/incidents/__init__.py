"""Reading what an investigation has found so far, and telling from it what an incident comes from."""
