"""Promise 1: a full disk refuses writes whole, lets reads go on, and needs no repair afterwards."""

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.promises.service import Service, at_once
from tests.promises.store import damage, half_memories
from tests.runtimes.embedding_server import EmbeddingServer

DISK_BYTES = 4 * 1024 * 1024
FILLING = "x" * 7000


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[], None]]:
    """A file system of DISK_BYTES at the folder; the function makes room on it.

    Where mounting is not allowed, a limit on the size of this process's children's files stands in.
    """
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode == 0:
        ballast = folder / "ballast"
        ballast.write_bytes(bytes(DISK_BYTES // 2))
        try:
            yield ballast.unlink
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        return
    raise NotImplementedError


def fill(service: Service) -> list[str]:
    """Write until the disk is full; the ids that were acknowledged before."""
    acknowledged: list[str] = []
    for number in range(2 * DISK_BYTES // len(FILLING)):
        answer = service.api.remember(subject_id="s", content=f"Catatan {number} {FILLING}")
        if answer.status != 201:
            answer.expect(507, "STORAGE_FULL")
            return acknowledged
        acknowledged.append(answer.data["id"])
    raise AssertionError("the disk never became full")
