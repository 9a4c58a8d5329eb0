"""What a results file says of where it was measured: enough to compare, nothing that names a place."""

import datetime
import os
import platform
import subprocess
from pathlib import Path

from titen_core import __version__

__all__ = ["REPOSITORY", "machine"]

REPOSITORY = Path(__file__).parents[1]


def machine() -> dict[str, object]:
    """Date, version, commit, processor, cores and Python of this run."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "titen": __version__,
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed_since_commit": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    """The model's name as Linux tells it; elsewhere the architecture."""
    information = Path("/proc/cpuinfo")
    for line in information.read_text().splitlines() if information.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
