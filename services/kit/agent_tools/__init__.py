"""Agents as tools of an MCP server.

`signalbox mcp` serves them on standard input and output, `http_api` over HTTP; they differ in who calls. A run goes on
whoever listens: what is told of it comes from the gateway's events, which any process can read again.
"""
