"""The official clients start `titen mcp` on a store's file; nothing but JSON-RPC reaches stdout."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.stdio import Stdio, stdio_target
from tests.mcp.tours import NEWEST_LEGACY, PYTHON_MODES, TYPESCRIPT_MODES, inspect, tour

pytestmark = pytest.mark.slow


@pytest.fixture
def titen(tmp_path: Path) -> Iterator[Stdio]:
    """Recall by words is enough here, and a start without the embedded model is quicker."""
    found = stdio_target(tmp_path / "said", {"TITEN_EMBED": "off"}, "--db", str(tmp_path / "titen.db"))
    yield found
    found.check_output()


@pytest.mark.parametrize(("mode", "version"), PYTHON_MODES)
def test_the_python_client(titen: Stdio, subject: str, mode: str, version: str) -> None:
    tour("official.py", titen.target(subject), version, mode)


@pytest.mark.parametrize(("mode", "version"), TYPESCRIPT_MODES)
def test_the_typescript_client(titen: Stdio, subject: str, mode: str, version: str) -> None:
    tour("sdk2.mjs", titen.target(subject), version, mode)


def test_the_typescript_sdk_of_2025(titen: Stdio, subject: str) -> None:
    tour("sdk1.mjs", titen.target(subject), NEWEST_LEGACY)


def test_the_inspector(titen: Stdio, subject: str, tmp_path: Path) -> None:
    program, *arguments = titen.command
    config = tmp_path / "mcp.json"
    server = {"type": "stdio", "command": program, "args": arguments, "env": titen.env}
    config.write_text(json.dumps({"mcpServers": {"titen": server}}))
    inspect(["--config", str(config), "--server", "titen"], subject)
