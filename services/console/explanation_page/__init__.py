"""The explanation of a run as one HTML page, complete in itself."""
