"""`export` and `import`, between files and services, whole and interrupted."""

import dataclasses
import json
import shutil
import stat
from pathlib import Path

import httpx
import pytest

from tests.vps.conftest import Store, make_store
from tests.vps.process import Service, running, titen

RECORDS = 230  # three pages


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with three pages of memories, made once."""
    store = make_store(tmp_path_factory.mktemp("full"))
    with running("serve", "--db", store.db, "--port", "0") as service:
        with httpx.Client(base_url=service.url, trust_env=False) as client:
            client.headers["Authorization"] = f"Bearer {store.api_key}"
            for number in range(RECORDS):
                body = {"subject_id": f"u{number % 3}", "content": f"fact number {number}"}
                assert client.post("/v1/memories", json=body).status_code == 201
        assert service.stop() == 0
    return store


@pytest.fixture
def filled(full: Store, tmp_path: Path) -> Store:
    """A copy of it."""
    return dataclasses.replace(full, db=Path(shutil.copy(full.db, tmp_path / "filled.db")))


def test_there_and_back_is_byte_identical(filled: Store, tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}.jsonl" for name in ("first", "second", "third"))
    done = titen("export", first, "--db", filled.db, "--json")
    assert done.document == {"file": str(first), "records": RECORDS, "complete": True}
    assert stat.S_IMODE(first.stat().st_mode) == 0o600

    other = make_store(tmp_path / "other")
    with running("serve", "--db", other.db, "--port", "0") as service:
        remote = ("--url", service.url, "--api-key", other.api_key)
        report = titen("import", first, *remote, "--json")
        assert report.code == 0, report.err
        assert (report.document["imported"], report.document["complete"]) == (RECORDS, True)
        again = titen("import", first, *remote, "--json").document
        assert (again["imported"], again["unchanged"]) == (0, RECORDS)
        assert titen("export", second, *remote).code == 0
    assert first.read_bytes() == second.read_bytes()

    third_store = make_store(tmp_path / "third")
    imported = titen("import", second, "--db", third_store.db)
    assert imported.code == 0
    assert "`titen repair`" in imported.out
    to_stdout = titen("export", "--db", third_store.db)
    assert to_stdout.out.encode() == first.read_bytes()
    assert f"Exported {RECORDS} memories" in to_stdout.err
    assert titen("import", "-", "--db", other.db, stdin=to_stdout.out).code == 0
    assert not third.exists()


def test_an_export_goes_on_where_it_stopped(filled: Store, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    titen("export", whole, "--db", filled.db)
    part.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    assert titen("export", part, "--db", filled.db).code == 1
    resumed = titen("export", part, "--db", filled.db, "--resume", "--json")
    assert resumed.document["records"] == RECORDS
    assert part.read_bytes() == whole.read_bytes()
    assert titen("export", part, "--db", filled.db, "--resume", "--json").document["records"] == RECORDS
    assert part.read_bytes() == whole.read_bytes()


def test_a_refused_export_leaves_no_file(store: Store, service: Service, tmp_path: Path) -> None:
    file, remote = tmp_path / "out.jsonl", ("--url", service.url, "--api-key")
    refused = titen("export", file, *remote, "titen_a_b")
    assert (refused.code, file.exists()) == (1, False)
    assert titen("export", file, *remote, store.api_key).code == 0


def test_bad_lines_and_a_missing_end_are_told(filled: Store, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    titen("export", whole, "--db", filled.db)
    lines = whole.read_bytes().splitlines(keepends=True)
    cut.write_bytes(b"".join([*lines[:50], b"not json\n", *lines[50:120]]))
    other = make_store(tmp_path / "other")
    report = titen("import", cut, "--db", other.db, "--json")
    assert report.code == 1
    assert report.document["imported"] == 119
    assert {"line": 51, "message": "The line is not valid JSON."} in report.document["errors"]
    assert report.document["complete"] is False
    spoken = titen("import", cut, "--db", other.db)
    assert "line 51:" in spoken.out
    assert "may be missing" in spoken.out


def test_lines_that_are_passed_over(filled: Store, tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    titen("export", whole, "--db", filled.db)
    other = make_store(tmp_path / "other")
    report = titen("import", whole, "--from-line", "103", "--db", other.db, "--json").document
    assert report["imported"] == RECORDS - 101  # a summary is on line 101
    assert report["failed"] == 0


def test_faults(service: Service, store: Store, tmp_path: Path) -> None:
    assert "cannot be read" in titen("import", tmp_path / "missing.jsonl", "--db", store.db).err
    assert titen("export", "--json", "--db", store.db).code == 2
    nowhere = titen("export", tmp_path / "no" / "dir.jsonl", "--db", store.db)
    assert nowhere.code == 1
    assert "cannot be written" in nowhere.err
    reader = titen(
        *("key", "create", "--db", store.db, "--role", "reader", "--principal", "r", "--kind", "agent", "--json")
    ).document["api_key"]
    refused = titen("export", tmp_path / "x.jsonl", "--url", service.url, "--api-key", reader)
    assert refused.code == 1
    assert "admin" in refused.err


def test_an_empty_store_exports_its_summary(store: Store) -> None:
    out = titen("export", "--db", store.db).out
    assert json.loads(out)["records"] == 0
