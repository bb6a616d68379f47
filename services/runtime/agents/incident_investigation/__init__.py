"""The agent `incident_investigation`."""
