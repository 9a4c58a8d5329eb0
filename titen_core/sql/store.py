"""The store: every table's reader and writer over one driver."""

from dataclasses import dataclass

from titen_core.protocols import SqlDriver
from titen_core.sql.digest import DigestRows
from titen_core.sql.idempotency import Idempotency
from titen_core.sql.keys import Keys
from titen_core.sql.memories import MemoryRows
from titen_core.sql.meta import Meta
from titen_core.sql.outbox import Outbox
from titen_core.sql.text_index import TextIndex
from titen_core.sql.transfer import Transfer

__all__ = ["SqlStore", "open_store"]


@dataclass(frozen=True, slots=True)
class SqlStore:
    """Canonical state. Written once; both runtimes are SQLite behind a two-method driver.

    What only an operator's command does (`sql/purge.py`, `sql/reindex.py`) opens its part by itself.
    """

    driver: SqlDriver
    memories: MemoryRows
    digests: DigestRows
    text: TextIndex
    outbox: Outbox
    idempotency: Idempotency
    keys: Keys
    meta: Meta
    transfer: Transfer


def open_store(driver: SqlDriver) -> SqlStore:
    """The store over a driver. Opens nothing and reads nothing."""
    return SqlStore(
        driver=driver,
        memories=MemoryRows(driver),
        digests=DigestRows(driver),
        text=TextIndex(driver),
        outbox=Outbox(driver),
        idempotency=Idempotency(driver),
        keys=Keys(driver),
        meta=Meta(driver),
        transfer=Transfer(driver),
    )
