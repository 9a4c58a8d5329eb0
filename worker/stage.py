"""Copies what is shipped into build/worker/, and nothing else: wrangler's build command.

Everything below the folder of wrangler's `main` is uploaded, so that folder is made fresh each time.
Words for readers stay behind: a third of the upload. Lines keep their numbers, for what logs say.
Packages of others are `vendor.py`'s business.
"""

import ast
import io
import json
import shutil
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "build" / "worker"
SHIPPED = (
    "titen_core",
    "adapters/__init__.py",
    "adapters/bounds.py",
    "adapters/chat_usage.py",
    "adapters/vectors.py",
    "adapters/cloudflare",
)
OPERATORS_OWN = (
    "titen_core/http/openapi.py",
    "titen_core/purge.py",
    "titen_core/reindex.py",
    "titen_core/sql/migrate.py",
    "titen_core/sql/purge.py",
    "titen_core/sql/reindex.py",
)
"""Parts of the core that no request needs: what builds the API document, purges, moves and migrates a store."""


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
    for module in target.rglob("*.py"):
        module.write_text(without_words(module.read_text()))
    return target


def without_words(source: str) -> str:
    """The same program without comments, and with empty docstrings in place of the others."""
    lines = source.splitlines()
    for first, last, end in sorted(_docstrings(source), reverse=True):
        (top, start), bottom = first, last
        lines[top] = f'{lines[top][:start]}""{lines[bottom][end:]}'
        lines[top + 1 : bottom + 1] = [""] * (bottom - top)
    for row, column in _comments("\n".join(lines)):
        lines[row] = lines[row][:column].rstrip()
    return "\n".join(lines) + "\n"


def _docstrings(source: str) -> list[tuple[tuple[int, int], int, int]]:
    """Where they start, and the last line and column of each, counted in characters from 0."""
    found = []
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            top, bottom = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            start = len(lines[top].encode()[: node.col_offset].decode())
            end = len(lines[bottom].encode()[: node.end_col_offset].decode())
            found.append(((top, start), bottom, end))
    return found


def _comments(source: str) -> list[tuple[int, int]]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [(token.start[0] - 1, token.start[1]) for token in tokens if token.type == tokenize.COMMENT]


if __name__ == "__main__":
    stage()
