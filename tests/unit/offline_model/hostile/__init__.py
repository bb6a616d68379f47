"""Programs that are weak when they run, and look as if they were not; by what hides it."""
