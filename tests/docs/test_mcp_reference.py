"""The MCP page names every tool, revision and error of the code."""

import re
from pathlib import Path

from titen_core.mcp import rpc
from titen_core.mcp.eras import SUPPORTED
from titen_core.mcp.tools import listed_tools

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "mcp.md").read_text(encoding="utf-8")


def test_every_tool_is_named() -> None:
    assert re.findall(r"^\| `(titen_\w+)` \|", PAGE, re.MULTILINE) == [tool["name"] for tool in listed_tools()]


def test_every_revision_is_named() -> None:
    assert tuple(re.findall(r"`(20\d\d-\d\d-\d\d)`", PAGE)) == SUPPORTED


def test_every_error_is_named() -> None:
    codes = {value for name, value in vars(rpc).items() if name.isupper() and isinstance(value, int)}
    assert {-int(digits) for digits in re.findall(r"−(32\d\d\d)", PAGE)} == codes
