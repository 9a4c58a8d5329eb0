"""The programs that stand in this folder and are not Titen's: the npm packages, the Python client.

The client lives in a virtual environment of their own, so that nothing of them decides what Titen is developed with.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

__all__ = ["CLIENTS", "package", "python", "run", "run_json"]

_HERE: Final = Path(__file__).parent
_TIMEOUT_S: Final = 120
CLIENTS: Final = _HERE / "clients"
_COMPILED: Final = _HERE / "node_modules" / ".cache" / "node"


def python() -> str:
    """The interpreter that has the official Python client."""
    return str(_installed(_HERE / ".venv" / "bin" / "python"))


def package(file: str) -> str:
    """A file of an npm package."""
    return str(_installed(_HERE / "node_modules" / file))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever it says. No setting of this process reaches it, nor anybody's home."""
    with TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": os.environ["PATH"], "NODE_COMPILE_CACHE": str(_COMPILED)}
        return subprocess.run(
            command, env=environment, cwd=home, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )


def run_json(command: Sequence[str]) -> Any:
    """The JSON that a program prints. Fails the test where it fails or prints something else."""
    done = run(*command)
    assert done.returncode == 0, f"{command[1]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def _installed(path: Path) -> Path:
    if not path.exists():
        raise RuntimeError(f"{path} is missing: run `make mcp-tools` first")
    return path
