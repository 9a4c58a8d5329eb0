"""The built wheel: complete with its extras, and one sentence without them."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.vps.process import ROOT, environment


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, somewhere far from the checkout."""
    directory = tmp_path_factory.mktemp("wheel")
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(directory), str(ROOT)]
    done = subprocess.run([sys.executable, *build], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = directory.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(directory / "site")
    return directory / "site"


def _run(unpacked: Path, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    env = {**environment(), "PYTHONPATH": str(unpacked)}
    return subprocess.run(
        [sys.executable, *options, "-m", "vps.launcher", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
        cwd=unpacked.parent,
        check=False,
    )


def test_it_brings_its_migrations(unpacked: Path, tmp_path: Path) -> None:
    assert list((unpacked / "vps" / "migrations").glob("*.sql"))
    made = _run(unpacked, "init", "--db", str(tmp_path / "titen.db"), "--json")
    assert made.returncode == 0, made.stderr


def test_without_the_extra_it_says_what_to_install(unpacked: Path) -> None:
    ran = _run(unpacked, "serve", options=("-S",))  # no site-packages: a plain install, as far as extras go
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "pip install 'titen[vps,local]'" in ran.stderr
    assert ran.stderr.count("\n") == 1
