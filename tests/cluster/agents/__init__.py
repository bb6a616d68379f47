"""The end-to-end tests of the agents that change graphs and read code, asked of a cluster's platform."""
