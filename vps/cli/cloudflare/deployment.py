"""What a deployment is called, where its checkout is, and the config file that wrangler gets for it."""

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vps.faults import EXIT_USAGE, Fault

__all__ = ["CONFIG", "DEFAULT_NAME", "Deployment", "Notes", "config_text", "opened", "upload_tag"]

DEFAULT_NAME = "titen"
TEMPLATE = "wrangler.toml"
CONFIG = "wrangler.local.toml"
HEADER = "# Made from wrangler.toml by `titen cloudflare provision`, again at each run: change that, not this.\n"
UPLOADED = ("worker", "titen_core", "adapters", "python_modules")
NOT_UPLOADED = frozenset({".pyc", ".pyi", ".pth"})

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,52}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Deployment:
    """The Worker and its database are called `name`, the vector index `name`-memory."""

    name: str
    directory: Path

    @property
    def index(self) -> str:
        return f"{self.name}-memory"

    @property
    def config(self) -> Path:
        return self.directory / CONFIG

    @property
    def key_file(self) -> Path:
        """Where this user's admin key is kept."""
        return self.directory / ".titen" / f"{self.name}.cloudflare-admin-key"

    @property
    def notes_file(self) -> Path:
        return self.directory / ".titen" / f"{self.name}.cloudflare.json"


@dataclass(frozen=True, slots=True)
class Notes:
    """What a later run cannot ask Cloudflare: the address, and which upload was tried and works."""

    url: str | None = None
    tried: str | None = None

    @staticmethod
    def read(deployment: Deployment) -> "Notes":
        try:
            found = json.loads(deployment.notes_file.read_text(encoding="utf-8"))
            return Notes(found.get("url"), found.get("tried"))
        except (OSError, ValueError, AttributeError):
            return Notes()

    def keep(self, deployment: Deployment) -> None:
        """Raises Fault."""
        content = json.dumps({"url": self.url, "tried": self.tried})
        try:
            deployment.notes_file.parent.mkdir(mode=0o700, exist_ok=True)
            deployment.notes_file.write_text(f"{content}\n", encoding="utf-8")
        except OSError as failure:
            raise Fault(f"{deployment.notes_file} cannot be written: {failure.strerror}.") from None


def opened(directory: str, name: str | None) -> Deployment:
    """The deployment of a checkout: named, or the one provisioned there before. Raises Fault."""
    folder = Path(directory)
    if not (folder / TEMPLATE).is_file() or not (folder / "worker" / "entry.py").is_file():
        raise Fault(f"{folder} is no checkout of Titen; run this in one, or name it with --directory.", EXIT_USAGE)
    before = _parsed(folder / CONFIG).get("name") if (folder / CONFIG).exists() else None
    if name is not None and not _NAME.fullmatch(name):
        raise Fault("--name takes lower-case letters, digits and hyphens, at most 54.", EXIT_USAGE)
    if before is not None and name not in {None, before}:
        raise Fault(f"This checkout deploys {before}; use a checkout of its own for {name}.", EXIT_USAGE)
    return Deployment(str(before or name or DEFAULT_NAME), folder)


def config_text(deployment: Deployment, database_id: str) -> str:
    """wrangler.toml with this deployment's names and its database. Raises Fault."""
    text = (deployment.directory / TEMPLATE).read_text(encoding="utf-8")
    text = re.sub(r"^# database_id = .*\n", "", text, flags=re.MULTILINE)
    for line, value in (
        (r"^name = .*$", f'name = "{deployment.name}"'),
        (r"^index_name = .*$", f'index_name = "{deployment.index}"'),
        (r"^database_name = .*$", f'database_name = "{deployment.name}"\ndatabase_id = "{database_id}"'),
    ):
        text, count = re.subn(line, value, text, count=1, flags=re.MULTILINE)
        if count != 1:
            raise Fault(f"{TEMPLATE} has no line such as {value.splitlines()[0]}; restore it from the repository.")
    return HEADER + text


def upload_tag(deployment: Deployment, config: str) -> str:
    """Short, and the same as long as the same files would be uploaded."""
    digest = hashlib.sha256(config.encode())
    for folder in UPLOADED:
        for path in sorted((deployment.directory / folder).rglob("*")):
            if path.is_file() and path.suffix not in NOT_UPLOADED:
                digest.update(f"{path.relative_to(deployment.directory).as_posix()}\n".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"titen-{digest.hexdigest()[:12]}"


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise Fault(f"{path} cannot be read; remove it and run `titen cloudflare provision` again.") from None
