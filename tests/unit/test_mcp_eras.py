"""Headers as servers hand them on; HTTP clients refuse to send these."""

import pytest

from titen_core.mcp.eras import MODERN, check_headers, headers_of, version_of
from titen_core.mcp.rpc import Message

META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


def test_white_space_around_a_header_is_no_part_of_it() -> None:
    headers = {"mcp-name": "\t titen_recall ", "mcp-method": " tools/call ", "mcp-protocol-version": f" {MODERN}\t"}
    message = Message("tools/call", 1, {"name": "titen_recall", "_meta": META})
    assert version_of(headers, message) == MODERN
    check_headers(headers, message)


@pytest.mark.parametrize("name", ["titen_recall", "titen_é", "with space", "=?base64?x?=", ""])
def test_the_headers_made_of_a_message_agree_with_it(name: str) -> None:
    message = {"method": "tools/call", "params": {"name": name, "_meta": META}}
    check_headers(headers_of(message), Message("tools/call", 1, {"name": name, "_meta": META}))


@pytest.mark.parametrize("message", [None, [], 7, {"params": []}, {"params": {"_meta": 1}}, {"method": "ping"}])
def test_an_older_message_or_none_at_all_needs_no_headers(message: object) -> None:
    assert headers_of(message) == {}
