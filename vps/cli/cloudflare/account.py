"""The steps of provisioning, in order. Each looks first and changes only what is missing."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adapters.cloudflare.vectorize import METADATA_INDEXES
from titen_core.protocols import Statement
from titen_core.sql.migrate import MigrationRefused, pending
from titen_core.sql.rows import text
from vps.cli.cloudflare import operations
from vps.cli.cloudflare.deployment import CONFIG, Deployment, config_text, upload_tag
from vps.cli.first_start import keep_key
from vps.faults import Fault
from vps.first_key import first_key
from vps.wrangler import CommandRunner, WranglerFailed
from vps.wrangler_d1 import WranglerD1

__all__ = ["Account"]

_URL = re.compile(r"https://[a-z0-9.-]+\.workers\.dev\b")
_TABLES = Statement("SELECT name FROM sqlite_schema WHERE type = 'table'")
_APPLIED = Statement("SELECT name FROM d1_migrations ORDER BY id")
_NOT_OURS_TO_COUNT = ("sqlite_", "_cf_")


@dataclass(frozen=True, slots=True)
class Account:
    """What a Cloudflare account holds of a deployment. `rehearsal`: nothing is written here either.

    Every method answers one sentence about what it found or did, and raises WranglerFailed, SqlError or Fault.
    """

    deployment: Deployment
    wrangler: CommandRunner
    say: Callable[[str], None]
    rehearsal: bool = False

    @property
    def d1(self) -> WranglerD1:
        return WranglerD1(self.wrangler, self.deployment.name, CONFIG)

    def database(self) -> str:
        """D1, and the config file that names it for every later command."""
        found = self._database_id()
        if found is None:
            self.wrangler.run(*operations.create_database(self.deployment))
        database_id = found or self._database_id()
        if database_id is None:
            raise Fault(f"wrangler created the database {self.deployment.name} but does not list it; run this again.")
        self._write_config(config_text(self.deployment, database_id))
        return f"the database {self.deployment.name} " + ("exists" if found else "was created")

    def migrations(self, known: Sequence[str]) -> str:
        """The schema. A database of another application, or of a newer Titen, is left alone."""
        tables = {text(row["name"]) for row in asyncio.run(self.d1.query(_TABLES))}
        if "d1_migrations" in tables:
            noted = [text(row["name"]) for row in asyncio.run(self.d1.query(_APPLIED))]
        elif any(not name.startswith(_NOT_OURS_TO_COUNT) for name in tables):
            raise Fault(f"The database {self.deployment.name} holds another application's tables; give another --name.")
        else:
            noted = []
        try:
            missing = pending(noted, known)
        except MigrationRefused as refusal:
            raise Fault(str(refusal)) from None
        if not missing:
            return "the schema is up to date"
        self.wrangler.run(*operations.apply_migrations(self.deployment))
        return f"the schema was brought to {missing[-1]}"

    def index(self) -> str:
        """Vectorize, of the size and metric that the model's vectors have."""
        indexes = _document(self.wrangler.run(*operations.list_indexes()))
        found = next((each for each in indexes if each["name"] == self.deployment.index), None)
        if found is None:
            self.wrangler.run(*operations.create_index(self.deployment))
            return f"the index {self.deployment.index} was created"
        shape = (found["config"].get("dimensions"), found["config"].get("metric"))
        if shape != (operations.DIMENSIONS, operations.METRIC):
            raise Fault(
                f"The index {self.deployment.index} has {shape[0]} dimensions and the metric {shape[1]}, and not "
                f"{operations.DIMENSIONS} and {operations.METRIC}; give another --name, or delete it if unused."
            )
        return f"the index {self.deployment.index} exists"

    def metadata_indexes(self) -> str:
        """Ten of them, before the first vector: Vectorize indexes only what is written later."""
        listed = _document(self.wrangler.run(*operations.list_metadata_indexes(self.deployment)))
        have = {each["propertyName"]: str(each["indexType"]).lower() for each in listed}
        wrong = sorted(field for field, kind in METADATA_INDEXES.items() if have.get(field, kind) != kind)
        if wrong:
            raise Fault(f"The metadata index {wrong[0]} of {self.deployment.index} has another type; delete it first.")
        missing = {field: kind for field, kind in METADATA_INDEXES.items() if field not in have}
        if not missing:
            return "its metadata indexes exist"
        self._refuse_vectors()
        for field, kind in missing.items():
            self.wrangler.run(*operations.create_metadata_index(self.deployment, field, kind))
        return f"{len(missing)} metadata indexes were created"

    def upload(self) -> tuple[str, str, str | None]:
        """The Worker: its tag, the sentence, and the address that wrangler told, if it deployed."""
        tag = upload_tag(self.deployment, self._config())
        if self._deployed_tag() == tag:
            return tag, "the Worker is deployed as it is here", None
        out = self.wrangler.run(*operations.deploy(tag))
        found = _URL.findall(out)
        return tag, "the Worker was deployed", found[-1] if found else None

    def credentials(self, tenant_name: str) -> str:
        """The first tenant and its human admin key, whose secret is made here and shown once."""
        made = asyncio.run(first_key(self.d1, tenant_name))
        file = self.deployment.key_file
        if self.rehearsal:
            return f"the first tenant and its admin key would be created, and the key kept in {file}"
        if made is None and file.exists():
            return f"a tenant exists; its admin key is in {file}"
        if made is None:
            return "a tenant with a key exists; make another key with `titen cloudflare key create`"
        tenant, minted = made
        try:
            file.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as failure:
            raise Fault(f"{file.parent} cannot be made: {failure.strerror}. The key is: {minted.api_key}") from None
        keep_key(file, minted.api_key)
        self.say(f"Admin key, shown once and kept in {file}: {minted.api_key}")
        return f"the tenant {tenant.id} ({tenant.name}) and its admin key were created"

    def _database_id(self) -> str | None:
        listed = _document(self.wrangler.run(*operations.list_databases()))
        return next((str(each["uuid"]) for each in listed if each["name"] == self.deployment.name), None)

    def _config(self) -> str:
        return "" if self.rehearsal else self.deployment.config.read_text(encoding="utf-8")

    def _write_config(self, content: str) -> None:
        file = self.deployment.config
        if self.rehearsal or (file.exists() and file.read_text(encoding="utf-8") == content):
            return
        try:
            file.write_text(content, encoding="utf-8")
        except OSError as failure:
            raise Fault(f"{file} cannot be written: {failure.strerror}.") from None

    def _refuse_vectors(self) -> None:
        found = _document(self.wrangler.run(*operations.describe_index(self.deployment)))
        vectors = int(found.get("vectorCount") or 0)
        if vectors:
            raise Fault(
                f"{self.deployment.index} holds {vectors} vectors but lacks metadata indexes, which see only vectors "
                "written after them; give another --name, or delete the index if its vectors are not Titen's."
            )

    def _deployed_tag(self) -> str | None:
        """None too where no Worker has this name, or its deployment is spread over versions."""
        try:
            status = _document(self.wrangler.run(*operations.deployment_status(self.deployment)))
        except WranglerFailed:
            return None
        versions = status.get("versions") or []
        if len(versions) != 1:
            return None
        version = _document(self.wrangler.run(*operations.view_version(self.deployment, versions[0]["version_id"])))
        tag = (version.get("annotations") or {}).get("workers/tag")
        return None if tag is None else str(tag)


def _document(out: str) -> Any:
    try:
        return json.loads(out)
    except ValueError:
        raise WranglerFailed("wrangler answered something else than JSON; is it version 4 or newer?") from None
