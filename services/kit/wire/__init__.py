"""gRPC and HTTP, served and called: from settings to a serving process, deadlines, retries, streams."""
