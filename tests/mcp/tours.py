"""What every official client does: list the tools, remember, recall, forget. One function for each client."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.mcp.toolbox import CLIENTS, package, python, run_json
from tests.runtimes.node import NODE

__all__ = ["MODERN", "NEWEST_LEGACY", "PYTHON_MODES", "TYPESCRIPT_MODES", "inspect", "tour"]

MODERN: Final = "2026-07-28"
NEWEST_LEGACY: Final = "2025-11-25"
PYTHON_MODES: Final = [("auto", MODERN), ("legacy", NEWEST_LEGACY), (MODERN, MODERN)]  # auto is its default
TYPESCRIPT_MODES: Final = [("default", NEWEST_LEGACY), ("auto", MODERN), (MODERN, MODERN)]
_TOOLS: Final = ["titen_remember", "titen_recall", "titen_forget"]
_INSPECTOR: Final = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"


def tour(client: str, target: Mapping[str, Any], version: str, mode: str = "") -> None:
    """Let a script of `clients/` go round, and check that it spoke `version` and saw what it should."""
    program = python() if client.endswith(".py") else NODE
    answers = run_json([program, str(CLIENTS / client), json.dumps(target), mode])
    assert answers["version"] == version
    _check(answers["tools"], answers["stored"], answers["found"], answers["gone"])


def inspect(target: Sequence[str], subject: str) -> None:
    """The same through the inspector, which is started anew for each step."""
    inspector = [NODE, package(_INSPECTOR), "--cli", *target]

    def call(tool: str, **arguments: str) -> Any:
        pairs = [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")]
        answer = run_json([*inspector, "--method", "tools/call", "--tool-name", tool, *pairs])
        assert not answer.get("isError"), answer
        return answer["structuredContent"]

    listed = run_json([*inspector, "--method", "tools/list"])["tools"]
    stored = call("titen_remember", content="Prefers the night train to Surabaya", subject_id=subject)
    found = call("titen_recall", query="night train", subject_id=subject)
    gone = call("titen_forget", id=stored["id"])
    _check([tool["name"] for tool in listed], stored, found, gone)


def _check(tools: list[str], stored: Any, found: Any, gone: Any) -> None:
    assert tools == _TOOLS
    assert stored["status"] == "stored"
    assert [item["id"] for item in found["memories"]] == [stored["id"]]
    assert (gone["id"], gone["status"]) == (stored["id"], "deleted")
