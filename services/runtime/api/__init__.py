"""What the runtime serves to the gateway: one servicer a service of the contract, and how its messages are made."""
