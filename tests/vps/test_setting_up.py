"""`init`, `migrate`, `tenant` and `key` as real commands."""

import asyncio
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw

from tests.unit.kernel import open_driver
from tests.vps.conftest import Store
from tests.vps.process import ROOT, titen
from titen_core.sql.keys import Keys
from vps.compose import operator_access
from vps.first_key import first_key


def test_init_answers_tenant_key_and_secret(tmp_path: Path) -> None:
    made = titen("init", "--db", tmp_path / "new" / "titen.db", "--json")
    assert made.code == 0
    assert set(made.document) == {"tenant_id", "key_id", "api_key"}
    assert made.document["api_key"].startswith(f"titen_{made.document['key_id']}_")
    assert stat.S_IMODE((tmp_path / "new" / "titen.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_init_refuses_an_initialised_store(store: Store) -> None:
    again = titen("init", "--db", store.db, "--json")
    assert again.code == 1
    assert again.out == ""
    assert again.err.count("\n") == 1
    assert "initialised already" in again.err


def test_init_after_migrate_makes_the_first_key(tmp_path: Path) -> None:
    db = tmp_path / "titen.db"
    assert titen("migrate", "--db", db, "--json").document["applied"]
    assert titen("migrate", "--db", db, "--json").document == {"applied": []}
    assert titen("init", "--db", db, "--json").code == 0


def test_first_starts_at_once_make_one_tenant_and_one_key(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_driver(tmp_path) as driver:
            made = [each for each in await asyncio.gather(*(first_key(driver) for _ in range(8))) if each is not None]
            assert len(made) == 1
            (tenant, minted) = made[0]
            assert await Keys(driver).tenants() == [tenant]
            assert [key.id for key in await Keys(driver).list(operator_access(tenant), 10)] == [minted.key.id]

    asyncio.run(main())


def test_init_leaves_a_store_of_several_tenants_alone(tmp_path: Path) -> None:
    db = tmp_path / "titen.db"
    titen("migrate", "--db", db)
    titen("tenant", "create", "--db", db, "--name", "one")
    assert titen("init", "--db", db, "--json").code == 0
    assert titen("tenant", "create", "--db", db, "--name", "two").code == 0
    assert titen("init", "--db", db, "--json").code == 1


def test_the_secret_is_nowhere_in_the_store(store: Store) -> None:
    secret = store.api_key.split("_", 2)[2].encode()
    assert secret not in b"".join(path.read_bytes() for path in store.db.parent.iterdir())


def test_migrating_at_once_applies_each_once(tmp_path: Path) -> None:
    db = tmp_path / "titen.db"
    with ThreadPoolExecutor(6) as pool:
        runs = list(pool.map(lambda _: titen("migrate", "--db", db, "--json"), range(6)))
    assert [run.code for run in runs] == [0] * 6, [run.err for run in runs]
    names = sorted(path.name for path in (ROOT / "migrations").glob("*.sql"))
    assert sorted(name for run in runs for name in run.document["applied"]) == names


def test_tenants_and_keys(store: Store) -> None:
    made = titen("tenant", "create", "--db", store.db, "--name", "Acme", "--json").document
    listed = titen("tenant", "list", "--db", store.db, "--json").document
    assert [each["tenant_id"] for each in listed] == [store.tenant_id, made["tenant_id"]]

    ambiguous = titen("key", "list", "--db", store.db)
    assert ambiguous.code == 1
    assert "--tenant" in ambiguous.err

    key = titen(
        *("key", "create", "--db", store.db, "--tenant", made["tenant_id"], "--role", "writer", "--principal", "bot"),
        *("--kind", "agent", "--subject", "user_1", "--expires", "30d", "--label", "laptop", "--json"),
    ).document
    assert key["api_key"].startswith(f"titen_{key['key_id']}_")
    (row,) = titen("key", "list", "--db", store.db, "--tenant", made["tenant_id"], "--json").document
    assert (row["principal"], row["kind"], row["role"], row["subject_id"]) == ("bot", "agent", "writer", "user_1")
    assert (row["label"], row["revoked_at"]) == ("laptop", None)
    assert abs(row["expires_at"] - row["created_at"] - 30 * 86_400_000) < 60_000
    assert "api_key" not in row

    revoked = titen("key", "revoke", key["key_id"], "--db", store.db, "--json").document
    assert revoked["revoked_at"] is not None
    assert titen("key", "revoke", "nobody", "--db", store.db).code == 1


def test_a_new_key_says_what_it_is_bound_to(store: Store) -> None:
    made = titen(
        *("key", "create", "--db", store.db, "--role", "reader", "--principal", "widget", "--kind", "service"),
        *("--subject", "user_1", "--expires", "2100-01-01T00:00:00Z"),
    )
    assert "locked to the subject user_1, until 2100-01-01T00:00:00Z." in made.out


def test_a_bad_option_is_one_sentence(store: Store) -> None:
    key = ("key", "create", "--db", store.db, "--principal", "x", "--kind", "human")
    assert titen(*key, "--role", "owner").code == 2
    naive = titen(*key, "--role", "reader", "--expires", "2030-01-01T00:00:00")
    assert naive.code == 2
    assert "30d" in naive.err
    past = titen(*key, "--role", "reader", "--expires", "2020-01-01T00:00:00Z")
    assert past.code == 1
    assert "already passed" in past.err
    unknown = titen(*key, "--role", "reader", "--tenant", "nobody")
    assert unknown.code == 1
    assert "no tenant nobody" in unknown.err


def test_paths_that_cannot_be_a_store(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database, however long it may be" * 20)
    cases = {
        tmp_path / "missing.db": "create one with `titen init",
        tmp_path: "is a directory",
        tmp_path / "text.db": "not a Titen store",
        tmp_path / "text.db" / "below.db": "cannot be",
    }
    for path, words in cases.items():
        ran = titen("tenant", "list", "--db", path)
        assert (ran.code, ran.out) == (1, "")
        assert words in ran.err or "There is no store" in ran.err
        assert "Traceback" not in ran.err
    assert not (tmp_path / "missing.db").exists()


def test_another_applications_database_is_left_alone(tmp_path: Path) -> None:
    db = tmp_path / "other.db"
    with apsw.Connection(str(db)) as connection:
        connection.execute("CREATE TABLE notes (body TEXT)")
    connection.close()
    ran = titen("init", "--db", db)
    assert ran.code == 1
    assert "another application" in ran.err


def test_a_newer_store_is_refused_by_name(store: Store) -> None:
    connection = apsw.Connection(str(store.db))
    connection.execute("INSERT INTO d1_migrations (name) VALUES ('9999_future.sql')")
    connection.close()
    for command in (("migrate",), ("tenant", "list"), ("serve", "--port", "0"), ("up", "--port", "0")):
        ran = titen(*command, "--db", store.db)
        assert ran.code == 1
        assert "9999_future.sql" in ran.err
        assert "upgrade titen" in ran.err
        assert "Traceback" not in ran.err
