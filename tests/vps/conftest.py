"""A store and a service on it, for tests that only look."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.vps.process import Service, running, titen


@dataclass(frozen=True)
class Store:
    """A fresh store and the key `titen init` made."""

    db: Path
    tenant_id: str
    key_id: str
    api_key: str


def make_store(directory: Path) -> Store:
    made = titen("init", "--db", directory / "titen.db", "--json")
    assert made.code == 0, made.err
    return Store(directory / "titen.db", **made.document)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path)


@pytest.fixture
def service(store: Store) -> Iterator[Service]:
    with running("serve", "--db", store.db, "--port", "0") as started:
        yield started
