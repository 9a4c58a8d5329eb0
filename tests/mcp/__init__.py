"""The official MCP conformance suites and clients, against both runtimes."""
