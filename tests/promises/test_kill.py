"""Promise 1: no memory is lost, whenever the process ends and however."""

import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest

from tests.promises.service import Api, Service
from tests.promises.store import damage, half_memories
from tests.runtimes.embedding_server import EmbeddingServer

ROUNDS = 5
ACKNOWLEDGED_MIN = 50
WRITERS = 8
WORDS = ("kereta", "coffee", "omah", "school", "pasar", "rilis", "doctor", "teman", "malam", "uang")


@dataclass(frozen=True)
class State:
    """What a caller was told of a memory. `content` None: it is deleted."""

    version: int
    content: str | None


@dataclass
class Writer:
    """One caller with memories of its own, so that it alone decides what each should be.

    `expected` is what was acknowledged; `open` what the request in flight at the kill would have made
    of a memory: either is right. A creation in flight may have happened or not.
    """

    name: str
    chance: random.Random
    expected: dict[str, State] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    open: dict[str, State] = field(default_factory=dict)
    open_creations: list[str] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    settled: dict[str, State] = field(default_factory=dict)
    acknowledged: int = 0
    written: int = 0

    def write_until_the_end(self, api: Api) -> bool:
        """Whether a request was in flight when the service ended."""
        while True:
            try:
                self.write(api)
            except httpx.ConnectError:
                return False
            except httpx.TransportError:
                return True
            self.acknowledged += 1
            self.open.clear()
            self.open_creations.clear()

    def write(self, api: Api) -> None:
        live = [memory_id for memory_id, state in self.expected.items() if state.content is not None]
        act = self.chance.choice(["create", "create", "upsert", "patch", "delete", "restore"])
        if act == "upsert":
            self._upsert(api)
        elif act == "patch" and live:
            self._patch(api, self.chance.choice(live))
        elif act == "delete" and live:
            self._delete(api, self.chance.choice(live))
        elif act == "restore" and len(live) < len(self.expected):
            self._restore(api, self.chance.choice(sorted(self.expected.keys() - set(live))))
        else:
            self._create(api)

    def _create(self, api: Api) -> None:
        content = self._content()
        self.open_creations.append(content)
        made = api.remember(subject_id=self.name, content=content).expect(201).data
        self.expected[made["id"]] = State(made["version"], content)

    def _upsert(self, api: Api) -> None:
        key, content = f"key_{self.chance.randrange(4)}", self._content()
        standing = self.keys.get(key)
        if standing is None:
            self.open_creations.append(content)
        else:
            self.open[standing] = State(self.expected[standing].version + 1, content)
        made = api.remember(subject_id=self.name, category="fact", key=key, content=content)
        assert made.status in (200, 201), made
        self.keys[key] = made.data["id"]
        self.expected[made.data["id"]] = State(made.data["version"], content)

    def _patch(self, api: Api, memory_id: str) -> None:
        after = State(self.expected[memory_id].version + 1, self._content())
        self.open[memory_id] = after
        assert api.patch(memory_id, content=after.content).expect(200).data["version"] == after.version
        self.expected[memory_id] = after

    def _delete(self, api: Api, memory_id: str) -> None:
        after = State(self.expected[memory_id].version + 1, None)
        self.open[memory_id] = after
        api.delete(memory_id).expect(200)
        self.expected[memory_id] = after

    def _restore(self, api: Api, memory_id: str) -> None:
        before = self.expected[memory_id]
        self.open[memory_id] = replace(before, version=before.version + 1, content="*")
        data = api.call("POST", f"/v1/memories/{memory_id}/restore").expect(200).data
        self.expected[memory_id] = State(data["version"], data["content"])

    def _content(self) -> str:
        self.written += 1
        words = self.chance.sample(WORDS, 2)
        return f"{words[0]} {words[1]} {self.name}x{self.written}"

    def settle(self, api: Api) -> None:
        """Compare with what the service has, then take that up, with what the kill left open."""
        stored = {item["id"]: item for item in api.listed(subject_id=self.name)}
        known = self.settled
        for memory_id, state in self.expected.items():
            item = stored.pop(memory_id, None)
            found = state if item is None else State(item["version"], item["content"])
            if item is None and state.content is not None:
                found = State(state.version + 1, None)
            self.expected[memory_id] = self._either(memory_id, state, found)
        for item in stored.values():  # created, and killed before it could say so
            assert item["content"] in self.open_creations, (item, self.open_creations)
            assert item["version"] == 1
            self.expected[item["id"]] = State(1, item["content"])
            if item["key"] is not None:
                self.keys[item["key"]] = item["id"]
        self.open.clear()
        self.open_creations.clear()
        self.changed = {memory_id for memory_id, state in self.expected.items() if known.get(memory_id) != state}
        self.settled = dict(self.expected)

    def _either(self, memory_id: str, acknowledged: State, found: State) -> State:
        if found == acknowledged:
            return found
        after = self.open.get(memory_id)
        assert after is not None, (memory_id, acknowledged, found)
        assert found.version == after.version, (acknowledged, after, found)
        assert after.content == "*" or found.content == after.content, (acknowledged, after, found)
        return found

    def find_changed(self, api: Api, way: str) -> None:
        """Each live memory that changed since the last look, by its own unique word or its own vector."""
        for memory_id in self.changed:
            state = self.expected[memory_id]
            if state.content is None:
                assert api.get(memory_id).status == 404
                continue
            found = api.search(state.content, subject_id=self.name).data
            ranks = {item["id"]: item["score"][way] for item in found}
            assert ranks.get(memory_id) is not None, (way, state, found)


@contextmanager
def seeded() -> Iterator[random.Random]:
    """Chance whose seed a failure names."""
    seed = random.SystemRandom().randrange(2**32)
    try:
        yield random.Random(seed)
    except BaseException as failure:
        failure.add_note(f"seed {seed}")
        raise


def write_and_kill(service: Service, writers: list[Writer], chance: random.Random) -> bool:
    """Kill the service at a random instant once enough was acknowledged; whether requests were in flight."""
    acknowledged = sum(writer.acknowledged for writer in writers)
    api = service.api
    with ThreadPoolExecutor(len(writers)) as pool:
        running = [pool.submit(writer.write_until_the_end, api) for writer in writers]
        while sum(writer.acknowledged for writer in writers) < acknowledged + ACKNOWLEDGED_MIN:
            assert not any(each.done() for each in running), [each.result() for each in running if each.done()]
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.05))
        service.process.end(signal.SIGKILL)
        interrupted = [each.result() for each in running]
    service.process.close()
    return any(interrupted)


@pytest.mark.parametrize("group", range(4))
def test_what_was_acknowledged_survives_kill_9(group: int, tmp_path: Path) -> None:
    with seeded() as chance, EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        writers = [Writer(f"g{group}w{n}", random.Random(chance.random())) for n in range(WRITERS)]
        in_flight = 0
        for number in range(ROUNDS):
            if number % 2 == 0:  # leave some vectors to the outbox
                embedder.fail("status", status=503, times=chance.randrange(5, 25))
            in_flight += write_and_kill(service, writers, chance)
            embedder.clear()
            assert damage(service.database) == []
            assert half_memories(service.database) == []
            service.start()
            for writer in writers:
                writer.settle(service.api)
                writer.find_changed(service.api, "text_rank")
            service.api.drain()
            for writer in writers:
                writer.find_changed(service.api, "vector_rank")
            assert half_memories(service.database, drained=True) == []
        for writer in writers:
            writer.changed = set(writer.expected)
            writer.find_changed(service.api, "text_rank")
        assert in_flight == ROUNDS
        assert sum(writer.acknowledged for writer in writers) >= ROUNDS * ACKNOWLEDGED_MIN


def test_sigterm_amid_64_requests_ends_cleanly_and_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        service.api.stored(subject_id="s", content="first")
        embedder.fail("delay", ms=300)
        api, gate = service.api, threading.Barrier(65)
        acknowledged: dict[str, str] = {}

        def write(number: int) -> None:
            gate.wait()
            content = f"Catatan nomor {number}"
            try:
                answer = api.remember(subject_id="s", content=content)
            except httpx.TransportError:
                return
            acknowledged[answer.expect(201).data["id"]] = content

        with ThreadPoolExecutor(64) as pool:
            writing = [pool.submit(write, number) for number in range(64)]
            gate.wait()
            embedder.wait_for_requests(10)
            service.process.send(signal.SIGTERM)
            for each in writing:
                each.result()
        assert service.process.wait() == 0, service.logged()
        service.process.close()
        assert acknowledged
        embedder.clear()
        service.start()
        contents = {item["id"]: item["content"] for item in service.api.listed(subject_id="s")}
        assert acknowledged.items() <= contents.items()
        assert damage(service.database) == []
        assert half_memories(service.database) == []
