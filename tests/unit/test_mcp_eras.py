"""Headers as servers hand them on; HTTP clients refuse to send these."""

from titen_core.mcp.eras import MODERN, check_headers, version_of
from titen_core.mcp.rpc import Message

META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


def test_white_space_around_a_header_is_no_part_of_it() -> None:
    headers = {"mcp-name": "\t titen_recall ", "mcp-method": " tools/call ", "mcp-protocol-version": f" {MODERN}\t"}
    message = Message("tools/call", 1, {"name": "titen_recall", "_meta": META})
    assert version_of(headers, message) == MODERN
    check_headers(headers, message)
