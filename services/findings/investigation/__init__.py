"""Many findings, each a run of its own: asked for, followed, counted and reported."""
