"""A checkout, and an account that the stand-in keeps."""

import contextlib
import dataclasses
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from tests.vps.cloudflare import stand_in
from tests.vps.process import ROOT, Ran, titen
from vps.cli.root import cli

STAND_IN = Path(__file__).parent / "stand_in.py"
NOWHERE = "http://127.0.0.1:9"


@dataclasses.dataclass(frozen=True)
class Bench:
    """A checkout to provision from, and what the account has seen and holds."""

    checkout: Path
    account: Path

    in_process: bool = False

    @property
    def env(self) -> dict[str, str]:
        return {"STAND_IN": str(self.account), "TITEN_WRANGLER": f"{sys.executable} {STAND_IN}"}

    def titen(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Ran:
        """`titen cloudflare …` in the checkout."""
        if not self.in_process:
            return titen("cloudflare", *arguments, env={**self.env, **(env or {})}, cwd=self.checkout)
        result = CliRunner().invoke(
            cli, ["cloudflare", *map(str, arguments)], env={"TITEN_EMBED": "off", **self.env, **(env or {})}
        )
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    def provision(self, *arguments: str, url: str = NOWHERE) -> Ran:
        return self.titen("provision", "--wait", "0", "--url", url, *arguments)

    def fail(self, at: str, *, after: bool = False, times: int = 1, holding: str = "") -> None:
        order = {"at": at, "after": after, "times": times, "holding": holding}
        (self.account / "fail.json").write_text(json.dumps(order))

    @property
    def calls(self) -> list[list[str]]:
        file = self.account / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def forget_calls(self) -> None:
        (self.account / "calls.jsonl").unlink(missing_ok=True)

    @property
    def state(self) -> Any:
        return json.loads((self.account / "state.json").read_text())

    @property
    def d1(self) -> Path:
        return self.account / "d1.sqlite"

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(self.d1))
        try:
            return [tuple(row) for row in connection.execute(sql)]
        finally:
            connection.close()

    @property
    def key_file(self) -> Path:
        return self.checkout / ".titen" / "titen.cloudflare-admin-key"

    @property
    def api_key(self) -> str:
        return self.key_file.read_text().strip()


@pytest.fixture
def real_bench(tmp_path: Path) -> Bench:
    """An empty account and a small checkout; titen and the stand-in are processes."""
    checkout, account = tmp_path / "checkout", tmp_path / "account"
    for folder in (account, checkout / "titen_core", checkout / "adapters", checkout / "python_modules"):
        folder.mkdir(parents=True)
    shutil.copytree(ROOT / "worker", checkout / "worker", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "migrations", checkout / "migrations")
    shutil.copy(ROOT / "wrangler.toml", checkout)
    return Bench(checkout, account)


@pytest.fixture
def bench(real_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The same in this process, which saves a second a command."""
    monkeypatch.chdir(real_bench.checkout)
    for name in [name for name in os.environ if name.startswith("TITEN_")]:
        monkeypatch.delenv(name)

    as_process = subprocess.run

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if command[1] != str(STAND_IN):
            return as_process(command, **options)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = stand_in.main(command[2:])
        return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())

    monkeypatch.setattr("vps.wrangler.subprocess.run", run)
    return dataclasses.replace(real_bench, in_process=True)
