"""`titen mcp` as a program that a client starts, with a record of all it says on stdout."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Stdio", "stdio_target"]

_REPOSITORY = Path(__file__).resolve().parents[2]
_RECORDED = 'record="$0"; "$@" | tee -a "$record"'


@dataclass(frozen=True, slots=True)
class Stdio:
    """A command that serves MCP, the settings it needs, and the file that gets a copy of its stdout."""

    command: list[str]
    env: dict[str, str]
    record: Path

    def target(self, subject: str) -> dict[str, Any]:
        """In the shape that the scripts of `clients/` take."""
        program, *arguments = self.command
        return {"command": program, "args": arguments, "env": self.env, "subject": subject}

    def check_output(self) -> None:
        """Every line was one JSON-RPC message, and there were some."""
        lines = self.record.read_text().splitlines()
        assert lines
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in lines)


def stdio_target(record: Path, settings: Mapping[str, str], *options: str) -> Stdio:
    """`titen mcp` with these settings and options, its stdout copied to `record`."""
    served = [sys.executable, "-m", "vps.launcher", "mcp", *options]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(_REPOSITORY), **settings}
    return Stdio(["sh", "-c", _RECORDED, str(record), *served], env, record)
