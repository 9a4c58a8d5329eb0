"""`titen cloudflare provision` against a stand-in account: fresh, again, interrupted everywhere, rehearsed."""

import re
import stat
import tomllib
from pathlib import Path

import pytest

from adapters.cloudflare.vectorize import METADATA_INDEXES
from tests.vps.cloudflare.conftest import NOWHERE, Bench
from tests.vps.process import Ran, running

CHANGES = ("d1 create", "d1 migrations", "vectorize create", "vectorize create-metadata-index", "deploy ")
"""How the commands begin that change an account; `d1 execute` aside."""


def provisioned(bench: Bench) -> Ran:
    """Everything but the smoke, which has nobody to speak to."""
    ran = bench.provision()
    assert ran.code == 1
    assert "Stopped at the smoke" in ran.err
    return ran


def changing(bench: Bench) -> list[str]:
    calls = [" ".join(call) for call in bench.calls]
    return [call for call in calls if call.startswith(CHANGES) or "INSERT" in call or "UPDATE" in call]


def comparable(command: str) -> str:
    """Without what differs from run to run."""
    command = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|titen-[0-9a-f]{12}|\b\d{13}\b", "…", command)
    return re.sub(r"SELECT '\w{16}'", "SELECT '…'", command.replace("'\"'\"'", "'"))


def shown_commands(ran: Ran) -> list[str]:
    return [comparable(line) for line in ran.out.splitlines() if line.startswith("$ wrangler")]


def test_a_fresh_account_gets_everything_in_order(bench: Bench) -> None:
    provisioned(bench)
    assert [each for call in changing(bench) for each in CHANGES if call.startswith(each)] == [
        "d1 create",
        "d1 migrations",
        "vectorize create",
        *["vectorize create", "vectorize create-metadata-index"] * 10,
        "deploy ",
    ]
    (index,) = bench.state["indexes"].values()
    assert index["fields"] == dict(METADATA_INDEXES)
    assert index["config"] == {"dimensions": 1024, "metric": "cosine"}
    config = tomllib.loads((bench.checkout / "wrangler.local.toml").read_text())
    assert config["d1_databases"][0]["database_id"] == bench.state["databases"]["titen"]
    template = tomllib.loads((bench.checkout / "wrangler.toml").read_text())
    del config["d1_databases"][0]["database_id"]
    assert config == template
    assert bench.rows("SELECT k.role, p.kind, t.name FROM api_keys k, principals p, tenants t") == [
        ("admin", "human", "default")
    ]


def test_a_second_run_changes_nothing(bench: Bench) -> None:
    provisioned(bench)
    before = (bench.state, bench.rows("SELECT * FROM api_keys"), bench.api_key)
    bench.forget_calls()
    again = provisioned(bench)
    assert changing(bench) == []
    assert (bench.state, bench.rows("SELECT * FROM api_keys"), bench.api_key) == before
    assert bench.api_key not in again.out + again.err


def test_a_changed_file_is_deployed_and_nothing_else(bench: Bench) -> None:
    provisioned(bench)
    bench.forget_calls()
    (bench.checkout / "titen_core" / "new.py").write_text("A = 1\n")
    provisioned(bench)
    (call,) = changing(bench)
    assert call.startswith("deploy ")


FAILURES = [
    ("d1 list", "database", ""),
    ("d1 create", "database", ""),
    ("d1 execute", "migrations", ""),
    ("d1 migrations", "migrations", ""),
    ("vectorize list", "vector index", ""),
    ("vectorize create titen-memory", "vector index", ""),
    ("vectorize list-metadata-index", "metadata indexes", ""),
    ("vectorize create-metadata-index", "metadata indexes", "author"),
    ("deploy ", "deployment", ""),
    ("d1 execute", "first tenant and key", "FROM tenants"),
    ("d1 execute", "first tenant and key", "INSERT INTO api_keys"),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("at", "title", "holding"), FAILURES)
def test_a_failure_is_one_sentence_and_the_next_run_goes_on(
    bench: Bench, at: str, title: str, holding: str, after: bool
) -> None:
    bench.fail(at, after=after, holding=holding)
    failed = bench.provision()
    assert failed.code == 1
    assert failed.err.count("\n") == 1, failed.err
    assert f"Stopped at {title}: wrangler says: The stand-in failed at {' '.join(at.split()[:2])}; done" in failed.err
    assert failed.err.rstrip().endswith("run the same command again to go on.")
    assert "\x1b" not in failed.err + failed.out

    resumed = bench.provision()
    (index,) = bench.state["indexes"].values()
    assert index["fields"] == dict(METADATA_INDEXES)
    assert len(bench.state["databases"]) == 1
    assert bench.rows("SELECT count(*) FROM tenants") == [(1,)]
    assert bench.rows("SELECT count(*) FROM api_keys") == [(1,)]
    if after and holding == "INSERT INTO api_keys":  # the one thing that cannot be had again is the secret
        assert "make another key with `titen cloudflare key create`" in resumed.out
        assert "No key for the smoke" in resumed.err
    else:
        assert bench.api_key in resumed.out
        assert "Stopped at the smoke" in resumed.err
    bench.forget_calls()
    bench.provision()
    assert changing(bench) == []


def test_a_rehearsal_tells_what_a_fresh_account_would_get_and_does_nothing(bench: Bench) -> None:
    before = sorted(path for path in bench.checkout.rglob("*"))
    rehearsed = bench.titen("provision", "--dry-run")
    assert (rehearsed.code, rehearsed.err) == (0, "")
    assert bench.calls == []
    assert sorted(path for path in bench.checkout.rglob("*")) == before
    assert "titen_" not in rehearsed.out.replace("titen_core", "")
    assert shown_commands(rehearsed) == shown_commands(provisioned(bench))


def test_the_secret_is_shown_once_and_kept_in_private(real_bench: Bench) -> None:
    bench = real_bench
    ran = provisioned(bench)
    secret = bench.api_key.split("_", 2)[2]
    assert ran.out.count(secret) == 1
    assert secret not in ran.err
    assert all(secret not in argument for call in bench.calls for argument in call)
    assert secret.encode() not in bench.d1.read_bytes()
    assert stat.S_IMODE(bench.key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(bench.key_file.parent.stat().st_mode) == 0o700
    kept = [path for path in bench.checkout.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert kept == [bench.key_file]
    (stored,) = bench.rows("SELECT secret_hash FROM api_keys")[0]
    assert stored not in ran.out + ran.err


def test_the_smoke_is_run_until_it_passes_and_then_not_again(bench: Bench) -> None:
    provisioned(bench)
    with running("serve", "--db", bench.d1, "--port", "0") as service:
        passed = bench.provision(url=service.url)
        assert passed.code == 0, passed.err
        assert "recalls at once" in passed.out
        memories = bench.rows("SELECT count(*) FROM memories")
        again = bench.provision(url=service.url)
        assert again.code == 0
        assert "Nothing is left to do." in again.out
        assert bench.rows("SELECT count(*) FROM memories") == memories
        other = bench.provision("--api-key", "titen_wrong_key", url=f"{service.url}/")
        assert other.code == 1
        assert "does not work as it should" in other.err


def test_the_address_is_the_one_that_wrangler_told(bench: Bench) -> None:
    provisioned(bench)
    assert "https://titen.example.workers.dev" in (bench.checkout / ".titen" / "titen.cloudflare.json").read_text()


def test_names_follow_the_name(bench: Bench) -> None:
    bench.provision("--name", "acme", "--tenant-name", "O'Brien; DROP TABLE tenants; --")
    assert list(bench.state["databases"]) == ["acme"]
    assert list(bench.state["indexes"]) == ["acme-memory"]
    assert bench.rows("SELECT name FROM tenants") == [("O'Brien; DROP TABLE tenants; --",)]
    other = bench.provision("--name", "other")
    assert other.code == 2
    assert "deploys acme" in other.err
    assert bench.provision("--name", "--config").code == 2


def test_what_belongs_to_others_is_left_alone(bench: Bench) -> None:
    provisioned(bench)
    state = bench.account / "state.json"
    whole = state.read_text()
    state.write_text(whole.replace("1024", "768"))
    assert "768 dimensions" in bench.provision().err
    state.write_text(whole.replace('"verified": "boolean"', '"verified": "string"'))
    assert "another type" in bench.provision().err
    state.write_text(whole.replace('"verified": "boolean", ', "").replace('"vectors": 0', '"vectors": 7'))
    assert "holds 7 vectors" in bench.provision().err
    state.write_text(whole)
    bench.rows("INSERT INTO d1_migrations (name) VALUES ('9999_future.sql')")
    assert "upgrade titen" in bench.provision().err
    bench.d1.unlink()
    bench.rows("CREATE TABLE notes (body TEXT)")
    assert "another application" in bench.provision().err
    assert all(run.count("\n") == 1 for run in (bench.provision().err,))


def test_the_place_and_the_program_are_checked(bench: Bench, tmp_path: Path) -> None:
    assert "no checkout" in bench.titen("provision", "--directory", tmp_path).err
    assert "no program" in bench.titen("provision", "--wrangler", "no-such-program").err
    assert "provision` first" in bench.titen("tenant", "list").err
    (bench.checkout / "python_modules").rmdir()
    assert "make worker-vendor" in bench.provision(url=NOWHERE).err
