"""Every command and example of the README runs, in order, as a new user would run them."""

import dataclasses
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from vps.settings import Settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

NOT_RUN_HERE = {"make test": "this test is part of what it runs"}


@dataclass(frozen=True)
class Block:
    language: str
    code: str


def blocks() -> list[Block]:
    return [Block(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)]


@dataclass(frozen=True)
class Service:
    """A service started as the README says, with its port and store moved out of the way."""

    directory: Path
    port: int

    def adapted(self, code: str) -> str:
        code = code.replace("127.0.0.1:8787", f"127.0.0.1:{self.port}")
        code = code.replace(".titen/titen.db", str(self.directory / "titen.db"))
        code = re.sub(r"(?<![\w/])\.venv/bin/python", sys.executable, code)  # not inside a longer path
        return re.sub(r"(?<![\w/])\.venv/bin/titen", f"{sys.executable} -m vps.launcher", code)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("readme")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert Block("sh", "make run\n") in blocks()
    database = directory / "titen.db"
    process = subprocess.Popen(started_by_make_run(database, port), cwd=ROOT, env=environment(directory), text=True)
    with process:
        wait_until_it_answers(process, port)
        yield Service(directory, port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def started_by_make_run(database: Path, port: int) -> list[str]:
    """What `make run` starts, from this interpreter, so that no second environment is made."""
    planned = subprocess.run(
        ["make", "--dry-run", "--assume-old=.venv/.app-ready", "run", f"DB={database}", f"PORT={port}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    command = next(line for line in planned.splitlines() if "titen up" in line)
    words = command.replace('"', "").split()
    return [sys.executable, "-m", "vps.launcher", *words[words.index("up") :]]


def environment(directory: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TITEN_")}
    return {**kept, "TITEN_DB": str(directory / "titen.db"), "PYTHONPATH": str(ROOT)}


def wait_until_it_answers(process: subprocess.Popen[str], port: int) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
        except (urllib.error.URLError, ConnectionError):
            assert process.poll() is None, "the service ended before it answered"
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the service did not answer")


def run(code: str, service: Service) -> str:
    done = subprocess.run(
        ["sh", "-euc", service.adapted(code)],
        cwd=service.directory,
        env=environment(service.directory),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_block_is_known_to_this_file() -> None:
    assert [block.language for block in blocks()] == ["sh", "sh", "sh", "sh", "python", "sh"]
    assert blocks()[1].code.strip() in NOT_RUN_HERE


def test_the_curl_commands_remember_and_recall_across_languages(service: Service) -> None:
    remembered = json.loads(run(blocks()[2].code, service))
    assert remembered["data"]["status"] == "stored"
    recalled = json.loads(run(blocks()[3].code, service))
    assert recalled["data"][0]["content"] == "Pengguna lebih suka naik kereta"
    assert recalled["meta"]["channels"]["vector"] == "ok"


def test_the_python_example_runs(service: Service) -> None:
    script = service.directory / "example.py"
    script.write_text(service.adapted(blocks()[4].code), encoding="utf-8")
    assert run(f"{sys.executable} {script}", service).strip() == "Ticket POL-358 waits for the bank."


def test_the_commands_run(service: Service) -> None:
    for command in blocks()[5].code.strip().splitlines():
        run(command, service)
    assert "Prefers replies in Indonesian" in run(
        ".venv/bin/titen recall 'which language?' --subject user_123", service
    )
    assert (service.directory / "memories.jsonl").stat().st_size > 0


def test_the_settings_table_is_the_settings_code() -> None:
    in_table = set(re.findall(r"`(TITEN_[A-Z_]+)`", README.split("## Settings")[1].split("## When")[0]))
    in_code = {f"TITEN_{field.name.upper()}" for field in dataclasses.fields(Settings) if field.name != "origins"}
    assert in_table == in_code | {"TITEN_CONFIG"}


def test_links_of_every_page_resolve() -> None:
    pages = [path for path in ROOT.rglob("*.md") if not {"node_modules", ".venv", "build"} & set(path.parts)]
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in link and link != "0000-short-name.md" and not (page.parent / link).exists()
    ]
    assert broken == []
