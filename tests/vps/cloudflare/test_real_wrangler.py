"""The real wrangler, without network: it takes every command line, and its local D1 takes our SQL.

Skipped where wrangler is not installed beside the harness's packages or its Node.js is too old.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.runtimes.cloudflare.runtime import HARNESS
from tests.vps.cloudflare.conftest import Bench
from tests.vps.process import ROOT

NODE_MIN = 22
REFUSED = ("Unknown argument", "Missing required argument", "Not enough", "Invalid values", "Unknown command")


def real_wrangler() -> list[str]:
    """How to start it. `WRANGLER_JS` and `NODE` name another one than the harness's."""
    script = Path(os.environ.get("WRANGLER_JS") or HARNESS / "node_modules" / "wrangler" / "bin" / "wrangler.js")
    node = os.environ.get("NODE") or shutil.which("node")
    if not script.exists():
        pytest.skip("wrangler is not installed: run make worker-vendor")
    version = subprocess.run([node or "node", "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").partition(".")[0]) < NODE_MIN:
        pytest.skip(f"wrangler needs Node.js {NODE_MIN} or newer")
    return [str(node), str(script)]


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With an account that nobody has, behind a port that nobody listens on."""
    environment = {
        **os.environ,
        "NO_COLOR": "1",
        "FORCE_COLOR": "0",
        "WRANGLER_SEND_METRICS": "false",
        "WRANGLER_WRITE_LOGS": "false",
        "CLOUDFLARE_API_TOKEN": "nobody",
        "CLOUDFLARE_ACCOUNT_ID": "0" * 32,
        "XDG_CONFIG_HOME": str(directory),
        "CLOUDFLARE_API_BASE_URL": "http://127.0.0.1:9",
    }
    return subprocess.run(
        [*real_wrangler(), *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def provisioned(bench: Bench) -> Bench:
    real_wrangler()
    bench.provision()
    bench.provision()  # the second looks at what is deployed
    made = bench.titen("key", "create", "--role", "writer", "--kind", "agent", "--principal", "O'Brien -- ;", "--json")
    bench.titen("key", "revoke", made.document["key_id"])
    bench.titen("purge", "--whole-tenant", "--yes")
    return bench


@pytest.mark.slow
def test_the_real_parser_takes_every_command_line(provisioned: Bench) -> None:
    kinds = {(*call[:2], *(word for word in call if word.startswith("--"))): call for call in provisioned.calls}
    assert {kind[:2] for kind in kinds} >= {("d1", "execute"), ("vectorize", "create"), ("versions", "view")}
    for call in kinds.values():
        # A deployment would be built first; one option too many ends it before, and is all the parser minds.
        bogus = ["--bogus"] if call[0] == "deploy" else []
        said = run(provisioned.checkout, *call, *bogus)
        assert said.returncode != 0, call
        if bogus:
            assert "Unknown argument: bogus" in said.stderr
        else:
            assert not any(word in said.stdout + said.stderr for word in REFUSED), (call, said.stderr)


def test_the_real_parser_refuses_what_it_does_not_know(provisioned: Bench) -> None:
    assert "Unknown argument: bogus" in run(provisioned.checkout, "d1", "list", "--json", "--bogus").stderr
    assert (
        "Missing required argument" in run(provisioned.checkout, "vectorize", "delete-vectors", "titen-memory").stderr
    )


@pytest.mark.slow
def test_the_local_d1_takes_migrations_and_every_statement(provisioned: Bench) -> None:
    migrated = run(
        provisioned.checkout, "d1", "migrations", "apply", "titen", "--local", "--config", "wrangler.local.toml"
    )
    assert migrated.returncode == 0, migrated.stderr
    answers: dict[str, Any] = {}
    for call in provisioned.calls:
        if call[:2] == ["d1", "execute"]:
            said = run(provisioned.checkout, *["--local" if word == "--remote" else word for word in call])
            assert said.returncode == 0, (call[-1], said.stdout)
            answers[call[-1]] = json.loads(said.stdout)
    minted = [found for sql, found in answers.items() if "INSERT INTO api_keys" in sql]
    assert len(minted) == 2
    assert all(len(found) == 2 and len(found[1]["results"]) == 1 for found in minted)


def test_the_deployment_is_built_and_small_enough(tmp_path: Path) -> None:
    if not (ROOT / "python_modules").is_dir():
        pytest.skip("python_modules/ is missing: run make worker-vendor")
    built = run(ROOT, "deploy", "--dry-run", "--config", "wrangler.toml", "--outdir", str(tmp_path / "out"))
    assert built.returncode == 0, built.stderr
    size = next(line for line in built.stdout.splitlines() if "gzip:" in line)
    assert float(size.partition("gzip:")[2].split()[0]) < 2_252.8
