"""The platform on one machine: every service as a process of its own, with a database of its own."""
