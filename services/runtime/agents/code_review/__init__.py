"""What the agents that judge findings share: the finding, the code that was read, the verdict that is drafted."""
