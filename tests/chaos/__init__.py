"""A package for pytest, so that the deployment ends with the tests that share it, and not with all."""
