"""How much a deployment uploads, as wrangler counts it: every file one after another, then gzip.

python worker/size.py            after vendor.py and stage.py; the last line is JSON
"""

import gzip
import json
from pathlib import Path

from worker.stage import TARGET as OWN
from worker.vendor import TARGET as VENDORED

TOTAL_KIB_MAX = 2_252.8  # 2.2 MiB; a Free plan takes 3 MB
OWN_KIB_MAX = 100.0
NOT_UPLOADED = (".pyc", ".pyi", ".pth")


def sizes() -> dict[str, float]:
    """KiB of the whole upload and of the project's own part of it."""
    own, vendored = _contents(OWN), _contents(VENDORED)
    return {"total_gzip_kib": _gzip_kib(own + vendored), "own_gzip_kib": _gzip_kib(own)}


def _contents(folder: Path) -> bytes:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in NOT_UPLOADED)
    if not files:
        raise SystemExit(f"{folder.name} is empty: run make worker-vendor worker-stage first")
    return b"".join(path.read_bytes() for path in files)


def _gzip_kib(content: bytes) -> float:
    return round(len(gzip.compress(content, 6)) / 1024, 1)


def main() -> None:
    found = sizes()
    too_large = found["total_gzip_kib"] > TOTAL_KIB_MAX or found["own_gzip_kib"] > OWN_KIB_MAX
    if too_large:
        print(f"Over the limit of {TOTAL_KIB_MAX} KiB in all or {OWN_KIB_MAX} KiB of our own.")  # noqa: T201
    print(json.dumps(found))  # noqa: T201
    raise SystemExit(int(too_large))


if __name__ == "__main__":
    main()
