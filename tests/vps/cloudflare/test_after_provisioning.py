"""Tenants, keys and purges of a deployment, against the stand-in."""

import hashlib
import json

import pytest

from tests.vps.cloudflare.conftest import Bench
from tests.vps.process import running, titen
from titen_core.models import Fingerprint

HOSTILE = (
    "O'Brien; DROP TABLE tenants; --",
    "'); DELETE FROM api_keys; --",
    'quotes " and \\ and ? and ?1 and :name',
    "/* comment */ -- é 𝄞 second",
    "--file=/etc/passwd",
)


@pytest.fixture
def deployed(bench: Bench) -> Bench:
    bench.provision()
    bench.forget_calls()
    return bench


@pytest.mark.parametrize("name", HOSTILE)
def test_a_tenant_may_have_any_name(deployed: Bench, name: str) -> None:
    made = deployed.titen("tenant", "create", f"--name={name}", "--json")
    assert made.code == 0, made.err
    assert made.document["name"] == name.strip()
    assert deployed.rows("SELECT name FROM tenants WHERE num = 2") == [(name.strip(),)]
    key = deployed.titen(
        *("key", "create", "--tenant", made.document["tenant_id"], "--role", "writer", "--kind", "agent"),
        *(f"--principal={name}", f"--subject={name}", "--json"),
    )
    assert key.code == 0, key.err
    assert deployed.rows("SELECT count(*) FROM api_keys") == [(2,)]
    assert deployed.rows("SELECT subject_id FROM api_keys WHERE role = 'writer'") == [(name.strip(),)]


def test_a_key_signs_in_until_it_is_revoked(deployed: Bench) -> None:
    made = deployed.titen("key", "create", "--role", "writer", "--principal", "bot", "--kind", "agent", "--json")
    api_key = made.document["api_key"]
    assert all(api_key.split("_", 2)[2] not in argument for call in deployed.calls for argument in call)
    stored = deployed.rows(f"SELECT secret_hash FROM api_keys WHERE id = '{made.document['key_id']}'")
    assert stored == [(hashlib.sha256(api_key.split("_", 2)[2].encode()).hexdigest(),)]
    assert stored[0][0] not in made.err + made.out
    with running("serve", "--db", deployed.d1, "--port", "0") as service:
        remember = ("remember", "Suka kereta", "--subject", "user_1", "--url", service.url, "--api-key", api_key)
        assert titen(*remember).code == 0
        assert made.document["key_id"] in deployed.titen("key", "list").out
        assert deployed.titen("key", "revoke", made.document["key_id"]).code == 0
        assert "refused the API key" in titen(*remember).err


def test_faults_are_one_sentence(deployed: Bench) -> None:
    assert "no key nobody" in deployed.titen("key", "revoke", "nobody").err
    key = ("key", "create", "--role", "writer", "--kind", "agent")
    assert "no tenant nobody" in deployed.titen(*key, "--principal", "x", "--tenant", "nobody").err
    assert "another kind" in deployed.titen(*key, "--principal", "admin").err
    deployed.fail("d1 execute")
    failed = deployed.titen("tenant", "list")
    assert failed.code == 1
    assert failed.err.endswith("Error: wrangler failed: The stand-in failed at d1 execute.\n")
    deployed.rows("DROP TABLE api_keys")
    assert "cannot be used: a table or column does not exist" in deployed.titen("key", "list").err


def test_a_purge_leaves_nothing_and_says_what_time_travel_keeps(deployed: Bench) -> None:
    with running("serve", "--db", deployed.d1, "--port", "0") as service:
        for subject in ("user_1", "user_2"):
            where = ("--subject", subject, "--url", service.url, "--api-key", deployed.api_key)
            assert titen("remember", f"Suka kereta {subject}", *where).code == 0
    made_by = Fingerprint("workers-ai", "@cf/baai/bge-m3", 1024)
    deployed.rows(f"INSERT INTO memory_vectors SELECT seq, '{made_by}', tenant_id, 10, '', '', 1 FROM memories")
    purged = deployed.titen("purge", "--subject", "user_1", "--yes", "--json")
    assert purged.code == 0, purged.err
    certificate = purged.document
    assert certificate["clean"] is True
    assert certificate["removed"]["memories"] == 1
    assert any("Time Travel" in note and "30 days" in note for note in certificate["notes"])
    assert deployed.rows("SELECT subject_id FROM memories") == [("user_2",)]
    assert deployed.state["indexes"]["titen-memory"]["deleted"] == ["1.1", "1.10"]
    assert "user_1" not in json.dumps(certificate)
    assert deployed.titen("purge", "--memory", "nobody", "--yes").code == 1
    assert deployed.titen("purge", "--yes").code == 2


def test_a_purge_cut_short_is_run_again(deployed: Bench) -> None:
    with running("serve", "--db", deployed.d1, "--port", "0") as service:
        where = ("--subject", "user_1", "--url", service.url, "--api-key", deployed.api_key)
        assert titen("remember", "Suka kereta", *where).code == 0
    deployed.fail("d1 execute", after=True, holding="DELETE FROM memories")
    assert deployed.titen("purge", "--subject", "user_1", "--yes").code == 1
    again = deployed.titen("purge", "--subject", "user_1", "--yes", "--json")
    assert again.code == 0, again.err
    assert deployed.rows("SELECT count(*) FROM memories") == [(0,)]
