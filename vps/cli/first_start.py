"""What `titen up` does before it serves, and what it shows once it does."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import click

from vps.faults import Fault
from vps.first_key import first_key
from vps.schema import migrate_store
from vps.storefile import open_database

__all__ = ["keep_key", "key_file_of", "prepare", "print_first_steps"]

KEY_FILE_MODE = 0o600


async def prepare(db: Path, tell: Callable[[str], object] = click.echo) -> Path:
    """Create or migrate the store and give it a first key; answers the file that holds the key. Raises Fault.

    `tell` gets sentences for the person who started it, the key among them.
    """
    key_file = key_file_of(db)
    async with open_database(db) as driver:
        applied = await migrate_store(driver, db)
        made = await first_key(driver)
    if made is not None:
        tenant, minted = made
        keep_key(key_file, minted.api_key)
        tell(f"Created the store {db} with the tenant {tenant.id}.")
        tell(f"Admin key, shown once and kept in {key_file}: {minted.api_key}")
    elif applied:
        tell(f"Migrated the store {db}: {', '.join(applied)}.")
    if made is None and key_file.exists():
        tell(f"The store is {db}; its admin key is in {key_file}.")
    elif made is None:
        tell(f"The store is {db}; {key_file} is gone, make another key with `titen key create`.")
    return key_file


def key_file_of(db: Path) -> Path:
    """Where the local user's admin key is kept."""
    return db.with_name(f"{db.name}.admin-key")


def print_first_steps(url: str, key_file: Path) -> None:
    """Two commands to paste: one remembers, one recalls."""
    if not key_file.exists():
        return
    authorization = f'-H "Authorization: Bearer $(cat {_quoted(key_file)})" -H "Content-Type: application/json"'
    click.echo(
        f"""
Remember something:

  curl -s {url}/v1/memories {authorization} \\
    -d '{{"subject_id": "user_123", "content": "Pengguna lebih suka naik kereta"}}'

Recall it, in other words and another language:

  curl -s {url}/v1/memories/search {authorization} \\
    -d '{{"subject_id": "user_123", "query": "How does the user like to travel?"}}'

The guide for agents is at {url}/ and Ctrl-C ends the service."""
    )


def keep_key(key_file: Path, api_key: str) -> None:
    """Write a key where only this user reads it, in place of an older one. Raises Fault, which tells the key."""
    try:
        key_file.unlink(missing_ok=True)
        with os.fdopen(os.open(key_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, KEY_FILE_MODE), "w") as stream:
            stream.write(f"{api_key}\n")
        os.chmod(key_file, stat.S_IRUSR | stat.S_IWUSR)
    except OSError as failure:
        raise Fault(f"The admin key cannot be kept in {key_file}: {failure.strerror}. It is: {api_key}") from None


def _quoted(path: Path) -> str:
    text = str(path)
    return text if all(char.isalnum() or char in "/._-" for char in text) else "'" + text.replace("'", "'\\''") + "'"
