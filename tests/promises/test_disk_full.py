"""Promise 1: a full disk refuses writes whole, lets reads go on, and needs no repair afterwards."""

import contextlib
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest

from tests.promises.service import Service, at_once, until
from tests.promises.store import damage, half_memories
from tests.runtimes.embedding_server import EmbeddingServer

DISK_BYTES = 4 * 1024 * 1024
FILLING = "kopi " * 1400


class Disk(Protocol):
    """A place for a store that can hold little, until more room is made."""

    def shrink(self, service: Service) -> None: ...

    def grow(self, service: Service) -> None: ...


class SmallFileSystem:
    """A tmpfs with a ballast file that can go."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"
        self._ballast.write_bytes(bytes(DISK_BYTES // 2))

    def shrink(self, service: Service) -> None:
        """It is small from the start."""

    def grow(self, service: Service) -> None:
        self._ballast.unlink()


class SmallFiles:
    """A limit on the size of each file the running process writes: what `ulimit -f` sets, and lifts."""

    def shrink(self, service: Service) -> None:
        self._limit(service, DISK_BYTES // 4)

    def grow(self, service: Service) -> None:
        self._limit(service, resource.RLIM_INFINITY)

    def _limit(self, service: Service, size: int) -> None:
        if sys.platform == "linux":
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextlib.contextmanager
def small_file_system(folder: Path) -> Iterator[Disk]:
    options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}"]
    mounted = subprocess.run(["mount", *options, "tmpfs", str(folder)], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here ({mounted.stderr.strip()}); small files are tested instead")
    try:
        yield SmallFileSystem(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def small_files(folder: Path) -> Iterator[Disk]:
    if sys.platform != "linux":
        pytest.skip("the limits of a running process can be changed on Linux only")
    yield SmallFiles()


def fill(service: Service) -> dict[str, str]:
    """Write, several at a time, until the disk is full; what was acknowledged."""
    api = service.api
    acknowledged: dict[str, str] = {}
    for start in range(0, DISK_BYTES // len(FILLING), 8):
        answers = at_once(lambda n: api.remember(subject_id="s", content=f"{n} {FILLING}"), range(start, start + 8), 8)
        for number, answer in enumerate(answers, start):
            if answer.status == 201:
                acknowledged[answer.data["id"]] = f"{number} {FILLING}".strip()
            else:
                answer.expect(507, "STORAGE_FULL")
        if any(answer.status == 507 for answer in answers):
            return acknowledged
    raise AssertionError("the disk never became full")


def contents(service: Service) -> dict[str, str]:
    return {item["id"]: item["content"] for item in service.api.listed(subject_id="s")}


@pytest.mark.parametrize("make_disk", [small_file_system, small_files])
def test_a_full_disk_loses_nothing_and_heals_by_itself(
    make_disk: Callable[[Path], AbstractContextManager[Disk]], tmp_path: Path
) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    with EmbeddingServer() as embedder, make_disk(place) as disk, Service(place, embedder) as service:
        service.start()
        first = service.api.stored(subject_id="s", content="Suka naik kereta")
        disk.shrink(service)
        acknowledged = {first["id"]: "Suka naik kereta", **fill(service)}
        for _ in range(10):  # small ones may still fit; each is there whole, or refused
            answer = service.api.remember(subject_id="s", content=f"Kecil {len(acknowledged)}")
            if answer.status == 201:
                acknowledged[answer.data["id"]] = f"Kecil {len(acknowledged)}"
            else:
                answer.expect(507, "STORAGE_FULL")
        refused = service.api.patch(first["id"], content=f"Besar {FILLING}")
        assert refused.status in (200, 507)
        if refused.status == 200:
            acknowledged[first["id"]] = f"Besar {FILLING}".strip()
        # Reading goes on, by id, by list and by both channels.
        assert contents(service) == acknowledged
        assert service.api.get(first["id"]).data["content"] == acknowledged[first["id"]]
        found = service.api.search("morning train kereta", subject_id="s")
        assert found.meta["channels"]["text"] == found.meta["channels"]["vector"] == "ok"
        assert service.api.call("GET", "/healthz").status == 200
        # With room again, the same process goes on as if nothing had been.
        disk.grow(service)
        later = service.api.stored(subject_id="s", content="Setelah ada ruang")
        acknowledged[later["id"]] = "Setelah ada ruang"
        assert contents(service) == acknowledged
        service.api.drain()
        assert damage(service.database) == []
        assert half_memories(service.database, drained=True) == []
        service.restart()
        assert contents(service) == acknowledged
        until(lambda: service.api.call("GET", "/readyz").status == 200, "it is ready")
