"""The real wrangler, without network: it takes every command line, and its local D1 takes our SQL."""

import itertools
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.runtimes.cloudflare.runtime import HARNESS
from tests.runtimes.node import NODE
from tests.vps.cloudflare.conftest import Bench
from tests.vps.process import ROOT

REFUSED = ("Unknown argument", "Missing required argument", "Not enough", "Invalid values", "Unknown command")


def real_wrangler() -> list[str]:
    """How to start it."""
    return [NODE, str(HARNESS / "node_modules" / "wrangler" / "bin" / "wrangler.js")]


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With an account that nobody has, behind a port that nobody listens on."""
    environment = {
        **os.environ,
        "NO_COLOR": "1",
        "FORCE_COLOR": "0",
        "WRANGLER_SEND_METRICS": "false",
        "WRANGLER_WRITE_LOGS": "false",
        "NODE_COMPILE_CACHE": str(HARNESS / "node_modules" / ".cache" / "node"),
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
    executed = [call for call in provisioned.calls if call[:2] == ["d1", "execute"]]
    minted = 0
    for mints, calls in itertools.groupby(executed, lambda call: "INSERT INTO api_keys" in call[-1]):
        one, *others = calls
        together = "; ".join(call[-1].rstrip("; \n") for call in (one, *others))
        said = run(provisioned.checkout, *["--local" if word == "--remote" else word for word in one[:-1]], together)
        assert said.returncode == 0, (together, said.stdout)
        if mints:
            assert len(json.loads(said.stdout)[-1]["results"]) == 1
            minted += 1
    assert minted == 2


def test_the_deployment_is_built_and_small_enough(tmp_path: Path) -> None:
    built = run(ROOT, "deploy", "--dry-run", "--config", "wrangler.toml", "--outdir", str(tmp_path / "out"))
    assert built.returncode == 0, built.stderr
    size = next(line for line in built.stdout.splitlines() if "gzip:" in line)
    assert float(size.partition("gzip:")[2].split()[0]) < 2_252.8
