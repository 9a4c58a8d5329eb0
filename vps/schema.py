"""The store's schema on this machine: finding the migrations, applying them, checking for them."""

from pathlib import Path

import vps
from titen_core import __version__
from titen_core.sql.migrate import Migration, MigrationRefused, MigrationTarget, applied, migrate, pending
from vps.faults import Fault

__all__ = ["bundled_migrations", "check_schema", "migrate_store"]


async def migrate_store(target: MigrationTarget, path: Path) -> list[str]:
    """Bring the store at `path` to this version's schema; answers what was applied. Raises Fault."""
    try:
        return await migrate(target, bundled_migrations())
    except MigrationRefused as refusal:
        raise Fault(f"{path}: {refusal}") from None


async def check_schema(target: MigrationTarget, path: Path) -> None:
    """Raises Fault unless the store has exactly the schema this version needs."""
    try:
        noted = await applied(target)
        missing = pending(noted, [migration.name for migration in bundled_migrations()])
    except MigrationRefused as refusal:
        raise Fault(f"{path}: {refusal}") from None
    if not noted:
        raise Fault(f"{path} is empty; create the store with `titen init --db {path}`.")
    if missing:
        raise Fault(
            f"{path} has an older schema than titen {__version__} needs;"
            f" back it up and run `titen migrate --db {path}`."
        )


def bundled_migrations() -> list[Migration]:
    """The migrations this version brings along: from the wheel, or from the checkout it runs in."""
    here = Path(vps.__file__).parent
    for folder in (here / "migrations", here.parent / "migrations"):
        files = sorted(folder.glob("*.sql"))
        if files:
            return [Migration(file.name, file.read_text(encoding="utf-8")) for file in files]
    raise Fault("This installation of titen has no migrations; install it again.")
