"""Puts the packages the Worker imports into python_modules/, as wheels for Pyodide, with pip alone.

    python worker/vendor.py          needs pip >= 26 and a package registry

`pywrangler sync` does the same with uv, but takes all of snowballstemmer: 30 languages, 350 KiB. Here the
two stemmers that `titen_core/text/stems.py` imports come with an empty `__init__`, since the package's own
imports every language.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "python_modules"
PACKAGES = ("pydantic>=2.12,<3", "pyjwt>=2.10,<3", "workers-runtime-sdk>=1.9,<2")
STEMMER = "snowballstemmer>=3.0,<4"
STEMMER_MODULES = ("among.py", "basestemmer.py", "english_stemmer.py", "indonesian_stemmer.py")
PLATFORM = (
    *("--platform", "pyemscripten_2026_0_wasm32", "--python-version", "3.14", "--implementation", "cp"),
    *("--abi", "cp314", "--abi", "abi3", "--abi", "none"),
)


def vendor(target: Path = TARGET) -> None:
    """Make the folder anew."""
    shutil.rmtree(target, ignore_errors=True)
    _install(target, *PLATFORM, *PACKAGES)
    with tempfile.TemporaryDirectory() as scratch:
        _install(Path(scratch), "--no-deps", STEMMER)
        _copy_stemmers(Path(scratch), target)
    (target / "pyvenv.cfg").touch()  # wrangler takes the folder for a package directory by this file


def _install(target: Path, *arguments: str) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    wheels = ["--only-binary", ":all:", "--no-compile", "--target", str(target)]
    subprocess.run([*pip, *wheels, *arguments], check=True)  # noqa: S603 - our own constants


def _copy_stemmers(installed: Path, target: Path) -> None:
    package = target / "snowballstemmer"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in STEMMER_MODULES:
        shutil.copy(installed / "snowballstemmer" / name, package)
    licences = sorted(installed.glob("snowballstemmer-*.dist-info/**/COPYING*"))
    for licence in licences:
        shutil.copy(licence, package)
    if not licences:
        raise SystemExit("snowballstemmer came without its licence; nothing may be shipped without it")


if __name__ == "__main__":
    vendor()
