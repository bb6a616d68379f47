"""What `make images` builds: looked into, started, asked. `make test` leaves them out: they need a container engine."""
