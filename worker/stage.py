"""Copies what is shipped into build/worker/, and nothing else: wrangler's build command.

Everything below the folder of wrangler's `main` is uploaded, so that folder is made fresh each time.
Packages of others are `vendor.py`'s business.
"""

import json
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "build" / "worker"
SHIPPED = (
    "titen_core",
    "adapters/__init__.py",
    "adapters/bounds.py",
    "adapters/vectors.py",
    "adapters/cloudflare",
)
OPERATORS_OWN = ("titen_core/http/openapi.py", "titen_core/purge.py", "titen_core/sql/migrate.py")
"""Parts of the core that no request needs: what builds the API document, purges and migrates."""


def stage(target: Path = TARGET) -> Path:
    """Make the folder anew and answer it."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    shutil.copy(ROOT / "worker" / "entry.py", target)
    for name in SHIPPED:
        source, destination = ROOT / name, target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, destination, ignore=shutil.ignore_patterns("__pycache__", "*.pyi", "py.typed"))
        else:
            shutil.copy(source, destination)
    for name in OPERATORS_OWN:
        (target / name).unlink()
    for document in target.rglob("*.json"):
        document.write_text(json.dumps(json.loads(document.read_text()), separators=(",", ":")))
    return target


if __name__ == "__main__":
    stage()
