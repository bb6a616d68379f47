"""The Agent Server's protocol over HTTP, for clients that LangGraph's SDKs make."""
