"""`smoke`, `doctor`, `repair`, `purge` and the help of every command."""

import json
import stat
from pathlib import Path

import apsw
import pytest

from tests.runtimes.embedding_server import EmbeddingServer
from tests.vps.conftest import Store
from tests.vps.process import Service, titen
from vps.cli.root import COMMANDS


def test_smoke_passes_and_leaves_nothing(service: Service, store: Store) -> None:
    ran = titen("smoke", "--url", service.url, "--api-key", store.api_key, "--json")
    assert ran.code == 0, ran.out
    assert ran.document["ok"] is True
    assert [step["ok"] for step in ran.document["steps"]] == [True] * 8
    assert json.loads(titen("export", "--db", store.db).out)["records"] == 0


def test_smoke_works_with_a_locked_key(service: Service, store: Store) -> None:
    key = titen(
        *("key", "create", "--db", store.db, "--role", "writer", "--principal", "bot", "--kind", "agent"),
        *("--subject", "u1", "--json"),
    ).document["api_key"]
    spoken = titen("smoke", "--url", service.url, "--api-key", key)
    assert spoken.code == 0, spoken.out
    assert "works." in spoken.out


def test_smoke_stops_at_what_fails(service: Service) -> None:
    ran = titen("smoke", "--url", service.url, "--api-key", "titen_a_b", "--json")
    assert ran.code == 1
    assert [step["ok"] for step in ran.document["steps"]] == [True, True, False]
    nowhere = titen("smoke", "--url", "http://127.0.0.1:9", "--api-key", "titen_a_b", "--json")
    assert (nowhere.code, len(nowhere.document["steps"])) == (1, 1)


def test_doctor_is_content_with_a_fresh_store(store: Store) -> None:
    ran = titen("doctor", "--db", store.db, "--json")
    assert ran.code == 0, ran.out
    assert ran.document["ok"] is True
    assert {check["verdict"] for check in ran.document["checks"]} == {"ok"}
    assert ran.document["settings"]["TITEN_DB"] == {"value": str(store.db), "from": "--db"}


def test_doctor_masks_secrets_and_finds_typos(store: Store) -> None:
    env = {
        "TITEN_EMBED_API_KEY": "sk-marker",
        "TITEN_API_KEY": "titen_marker",
        "TITEN_EMBED_BASE_URL": "http://user:marker@127.0.0.1:9/v1?key=marker",
        "TITEN_EMBED_MODEL": "m",
        "TITEN_EMBED": "",
        "TITEN_PROT": "1",
    }
    for arguments in ([], ["--json"]):
        ran = titen("doctor", "--db", store.db, *arguments, env=env)
        assert ran.code == 1
        assert "marker" not in ran.out + ran.err
        assert "did you mean TITEN_PORT?" in ran.out
    (embedder,) = [check for check in ran.document["checks"] if check["part"] == "embedder"]
    assert embedder["verdict"] == "broken"


def test_doctor_compares_fingerprints(store: Store) -> None:
    with EmbeddingServer() as server:
        env = {"TITEN_EMBED": "", "TITEN_EMBED_BASE_URL": server.base_url, "TITEN_EMBED_MODEL": server.model}
        assert titen("remember", "x", "--subject", "u", "--db", store.db, env=env).code == 0
        well = titen("doctor", "--db", store.db, "--json", env=env)
        assert well.code == 0, well.out
        (embedder,) = [check for check in well.document["checks"] if check["part"] == "embedder"]
        assert embedder["detail"]["fingerprint"] == embedder["detail"]["store_fingerprint"]
    connection = apsw.Connection(str(store.db))
    connection.execute("UPDATE titen_meta SET value = 'other:model:8:cosine:l2' WHERE key = 'fingerprint'")
    connection.close()
    with EmbeddingServer() as server:
        env = {"TITEN_EMBED": "", "TITEN_EMBED_BASE_URL": server.base_url, "TITEN_EMBED_MODEL": server.model}
        ran = titen("doctor", "--db", store.db, env=env)
        assert ran.code == 1
        assert "titen reindex" in ran.out


def test_doctor_on_what_is_no_store(tmp_path: Path, store: Store) -> None:
    missing = titen("doctor", "--db", tmp_path / "missing.db", "--json")
    assert missing.code == 1
    assert not (tmp_path / "missing.db").exists()
    store.db.chmod(0o644)
    loose = titen("doctor", "--db", store.db)
    assert loose.code == 0
    assert "chmod 600" in loose.out
    assert "All is well" not in loose.out


def test_repair_embeds_what_waits(store: Store) -> None:
    assert titen("remember", "naik kereta", "--subject", "u", "--db", store.db).code == 0
    off = titen("repair", "--db", store.db, "--json")
    assert (off.code, off.document["completed"]) == (0, 0)
    assert "TITEN_EMBED" in off.document["message"]
    with EmbeddingServer() as server:
        env = {"TITEN_EMBED": "", "TITEN_EMBED_BASE_URL": server.base_url, "TITEN_EMBED_MODEL": server.model}
        done = titen("repair", "--db", store.db, "--json", env=env)
        assert done.code == 0, done.err
        assert (done.document["requeued"], done.document["completed"], done.document["pending"]) == (1, 1, 0)
        assert titen("repair", "--db", store.db, env=env).out == "No vector was missing.\n"


def test_repair_mends_the_text_index(store: Store) -> None:
    titen("remember", "naik kereta", "--subject", "u", "--db", store.db)
    connection = apsw.Connection(str(store.db))
    connection.execute("DROP TABLE memory_vocab; DROP TABLE memory_text")
    connection.close()
    assert titen("recall", "kereta", "--db", store.db, "--json").document["data"] == []
    assert titen("repair", "--db", store.db).code == 0
    assert titen("recall", "kereta", "--db", store.db, "--json").document["data"]


def test_repair_of_a_service(service: Service, store: Store) -> None:
    ran = titen("repair", "--url", service.url, "--api-key", store.api_key, "--json")
    assert ran.document["completed"] == 0


def _everything(store: Store) -> bytes:
    return b"".join(path.read_bytes() for path in store.db.parent.iterdir() if path.name.startswith("titen.db"))


def test_purge_leaves_no_byte_and_a_certificate(store: Store, tmp_path: Path) -> None:
    for subject, content in (("gone", "markerzebra eats grass"), ("stays", "markerlion eats zebras")):
        titen("remember", content, "--subject", subject, "--tag", f"tag-{subject}", "--db", store.db)
    assert b"markerzebra" in _everything(store)
    copy, certificate = tmp_path / "copy.jsonl", tmp_path / "certificate.json"
    ran = titen(
        *("purge", "--subject", "gone", "--export", copy, "--certificate", certificate, "--yes", "--db", store.db)
    )
    assert ran.code == 0, ran.err
    assert ran.out == ""
    assert b"markerzebra" not in _everything(store)
    assert b"tag-gone" not in _everything(store)
    assert b"markerlion" in _everything(store)
    assert stat.S_IMODE(certificate.stat().st_mode) == 0o600
    document = json.loads(certificate.read_text())
    assert document["clean"] is True
    assert document["removed"]["memories"] == 1
    assert document["export"] == {"file": str(copy), "records": 1}
    assert "markerzebra" not in certificate.read_text()
    assert titen("import", copy, "--db", store.db, "--json").document["imported"] == 1


def test_purge_of_one_memory(store: Store, tmp_path: Path) -> None:
    made = titen("remember", "markerzebra", "--subject", "u", "--db", store.db, "--json").document["data"]
    copy = tmp_path / "copy.jsonl"
    ran = titen("purge", "--memory", made["id"], "--export", copy, "--yes", "--db", store.db)
    assert ran.code == 0, ran.err
    assert ran.document["memory_ids"] == [made["id"]]
    assert b"markerzebra" not in _everything(store)
    assert titen("import", copy, "--db", store.db, "--json").document["complete"] is True


def test_purge_asks_and_refuses(store: Store, tmp_path: Path) -> None:
    made = titen("remember", "kept", "--subject", "u", "--db", store.db, "--json").document["data"]
    purge = ("purge", "--db", store.db)
    assert titen(*purge, "--no-export", "--yes").code == 2
    assert titen(*purge, "--subject", "u", "--yes").code == 2
    assert titen(*purge, "--subject", "u", "--whole-tenant", "--no-export", "--yes").code == 2
    assert titen(*purge, "--memory", "unknown", "--no-export", "--yes").code == 1
    assert titen(*purge, "--subject", "u", "--no-export", stdin="n\n").code == 1
    standing = tmp_path / "standing"
    standing.write_text("mine")
    assert titen(*purge, "--subject", "u", "--export", standing, "--yes").code == 1
    assert standing.read_text() == "mine"
    assert titen("recall", "kept", "--db", store.db, "--json").document["data"][0]["id"] == made["id"]


def test_purge_of_the_whole_tenant(store: Store) -> None:
    titen("remember", "x", "--subject", "u", "--db", store.db)
    assert titen("purge", "--whole-tenant", "--no-export", "--yes", "--db", store.db).document["clean"] is True
    assert titen("tenant", "list", "--db", store.db, "--json").document == []


def test_reindex_moves_the_store_to_another_model(store: Store) -> None:
    assert titen("reindex", "--db", store.db).code == 1
    for content in ("naik kereta", "minum kopi", "makan nasi"):
        titen("remember", content, "--subject", "u", "--db", store.db)
    with EmbeddingServer() as server:
        env = {"TITEN_EMBED": "", "TITEN_EMBED_BASE_URL": server.base_url, "TITEN_EMBED_MODEL": server.model}
        moved = titen("reindex", "--db", store.db, "--json", env=env)
        assert moved.code == 0, moved.err
        assert (moved.document["before"], moved.document["embedded"]) == (None, 3)
        found = titen("recall", "railway", "--db", store.db, "--json", env=env).document
        assert found["data"][0]["content"] == "naik kereta"
    rebuilt = titen("reindex", "--db", store.db, "--json")
    assert rebuilt.code == 0, rebuilt.err
    assert (rebuilt.document["embedded"], rebuilt.document["reused"]) == (0, 3)
    gone = titen("reindex", "--db", store.db, env=env)
    assert gone.code == 1
    assert "reindex again" in gone.err


GROUPS = {"tenant": ("create", "list"), "key": ("create", "list", "revoke"), "token": ("create",)}


@pytest.mark.parametrize(
    "command",
    [
        *((name,) for name in COMMANDS if name not in GROUPS),
        *((group, name) for group, names in GROUPS.items() for name in names),
    ],
    ids=" ".join,
)
def test_every_command_explains_itself_with_an_example(command: tuple[str, ...]) -> None:
    ran = titen(*command, "--help")
    assert ran.code == 0
    assert "Example:" in ran.out
    assert f"titen {' '.join(command)}" in ran.out


def test_version() -> None:
    assert titen("version", "--json").document["version"] == titen("--version").out.split()[-1]
