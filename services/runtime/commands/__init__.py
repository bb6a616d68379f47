"""Commands of the runtime, each run as a program: migrate, compat_check, prove, documentation."""
