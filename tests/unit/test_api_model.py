"""A state machine drives the API and a dictionary side by side; after every step they must agree."""

import asyncio
import json
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.unit.kernel import WordModel
from tests.unit.service import Reply, Service, drain_all, open_service

HOUR_MS = 3_600_000
WORDS = ("amber", "birch", "cedar")
KEYS = ("home",)
SUBJECTS = ("user_1", "user_2")


@dataclass(frozen=True)
class Known:
    """What the model knows of one memory."""

    subject_id: str
    key: str | None
    word: str
    version: int = 1
    deleted: bool = False
    verified: bool = True
    expires_at: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    events: tuple[str, ...] = ("add",)

    def after(self, event: str, **changes: Any) -> "Known":
        return replace(self, version=self.version + 1, events=(*self.events, event), **changes)


SETTINGS = settings(
    max_examples=25, stateful_step_count=40, phases=(Phase.explicit, Phase.generate, Phase.shrink), derandomize=True
)


class ApiModel(RuleBasedStateMachine):
    """Every rule is one request; the dictionary says what must come of it."""

    ids = Bundle("ids")
    gateway: WordModel | None = None

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.opened = open_service(self.directory, self.gateway)
        self.service: Service = self.runner.run(self.opened.__aenter__())
        self.key = self.runner.run(self.service.key(self.runner.run(self.service.tenant())))
        self.known: dict[str, Known] = {}

    def teardown(self) -> None:
        self.runner.run(self.opened.__aexit__(None, None, None))
        self.runner.close()
        shutil.rmtree(self.directory)

    def call(self, method: str, target: str, body: object = None) -> Reply:
        return self.runner.run(self.service.call(method, target, body, key=self.key))

    @property
    def now_ms(self) -> int:
        return self.service.clock()

    def is_expired(self, memory: Known) -> bool:
        return memory.expires_at is not None and memory.expires_at <= self.now_ms

    def live(self) -> set[str]:
        return {name for name, memory in self.known.items() if not memory.deleted and not self.is_expired(memory)}

    def holder(self, subject_id: str, key: str | None, word: str) -> str | None:
        """Who holds the identity, deleted ones included."""
        for name, memory in self.known.items():
            same = memory.key == key if key else (memory.key is None and memory.word == word)
            if memory.subject_id == subject_id and same:
                return name
        return None

    @initialize()
    def start(self) -> None:
        assert self.call("GET", "/v1/memories").data == []

    @rule(
        target=ids,
        subject_id=st.sampled_from(SUBJECTS),
        key=st.sampled_from([None, *KEYS]),
        word=st.sampled_from(WORDS),
        hours=st.sampled_from([None, 1, 2]),
    )
    def remember(self, subject_id: str, key: str | None, word: str, hours: int | None) -> str:
        body: dict[str, Any] = {"subject_id": subject_id, "content": f"token {word}"}
        if key is not None:
            body.update(category="fact", key=key)
        if hours is not None:
            body["expires_at"] = self.now_ms + hours * HOUR_MS
        reply = self.call("POST", "/v1/memories", body)
        standing = self.holder(subject_id, key, word)
        if standing is None:
            assert (reply.status, reply.data["status"]) == (201, "stored")
            self.known[reply.data["id"]] = Known(subject_id, key, word, expires_at=body.get("expires_at"))
            return str(reply.data["id"])
        before = self.known[standing]
        assert (reply.status, reply.data["id"]) == (200, standing)
        if before.deleted or self.is_expired(before):
            assert reply.data["status"] == "restored"
            self.known[standing] = before.after("restore", word=word, deleted=False, expires_at=body.get("expires_at"))
        elif before.word != word or body.get("expires_at", before.expires_at) != before.expires_at:
            assert reply.data["status"] == "updated"
            expires_at = body.get("expires_at", before.expires_at)
            self.known[standing] = before.after("update", word=word, expires_at=expires_at)
        else:
            assert reply.data["status"] == "unchanged"
        return standing

    @rule(memory_id=ids, word=st.sampled_from(WORDS))
    def rewrite(self, memory_id: str, word: str) -> None:
        before = self.known[memory_id]
        reply = self.call("PATCH", f"/v1/memories/{memory_id}", {"content": f"token {word}"})
        if before.deleted:
            assert reply.status == 404
        elif before.word == word:
            assert reply.data["status"] == "unchanged"
        elif before.key is None and self.holder(before.subject_id, None, word) is not None:
            assert (reply.status, reply.code) == (409, "DUPLICATE")
            assert reply.json["error"]["details"] == {"id": self.holder(before.subject_id, None, word)}
        else:
            assert reply.data["status"] == "updated"
            self.known[memory_id] = before.after("update", word=word)

    @rule(memory_id=ids, name=st.sampled_from("ab"), value=st.sampled_from([None, 1, True]))
    def merge(self, memory_id: str, name: str, value: object) -> None:
        before = self.known[memory_id]
        reply = self.call("PATCH", f"/v1/memories/{memory_id}", {"metadata": {name: value}})
        if before.deleted:
            assert reply.status == 404
            return
        merged = {**before.metadata, name: value}
        merged = {member: held for member, held in merged.items() if held is not None}
        changed = json.dumps(merged, sort_keys=True) != json.dumps(before.metadata, sort_keys=True)
        assert reply.data["status"] == ("updated" if changed else "unchanged")
        if changed:
            self.known[memory_id] = before.after("update", metadata=merged)

    @rule(memory_id=ids, offset=st.sampled_from([-1, 0, 1]))
    def change_if_it_is_that_version(self, memory_id: str, offset: int) -> None:
        before = self.known[memory_id]
        expected = before.version + offset
        body = {"metadata": {"c": before.version}, "expected_version": max(expected, 1)}
        reply = self.call("PATCH", f"/v1/memories/{memory_id}", body)
        if before.deleted:
            assert reply.status == 404
        elif max(expected, 1) != before.version:
            assert (reply.code, reply.json["error"]["details"]) == ("VERSION_CONFLICT", {"version": before.version})
        else:
            assert reply.data["status"] == "updated"
            self.known[memory_id] = before.after("update", metadata={**before.metadata, "c": before.version})

    @rule(memory_id=ids)
    def forget(self, memory_id: str) -> None:
        before = self.known[memory_id]
        reply = self.call("DELETE", f"/v1/memories/{memory_id}")
        assert reply.data["status"] == ("unchanged" if before.deleted else "deleted")
        if not before.deleted:
            self.known[memory_id] = before.after("delete", deleted=True)

    @rule(memory_id=ids)
    def restore(self, memory_id: str) -> None:
        before = self.known[memory_id]
        reply = self.call("POST", f"/v1/memories/{memory_id}/restore")
        assert reply.data["status"] == ("restored" if before.deleted else "unchanged")
        if before.deleted:
            lifted = None if self.is_expired(before) else before.expires_at
            self.known[memory_id] = before.after("restore", deleted=False, expires_at=lifted)

    @rule(memory_id=ids)
    def verify(self, memory_id: str) -> None:
        reply = self.call("POST", f"/v1/memories/{memory_id}/verify")
        if self.known[memory_id].deleted:
            assert reply.status == 404
        else:
            assert reply.data["status"] == "unchanged", "a human wrote it"

    @rule(hours=st.integers(1, 2))
    def wait(self, hours: int) -> None:
        self.service.clock.forward(hours * HOUR_MS)

    @rule()
    def keep_house(self) -> None:
        self.runner.run(drain_all(self.service.kernel))

    @rule(memory_id=ids)
    def read_history(self, memory_id: str) -> None:
        memory = self.known[memory_id]
        events = self.call("GET", f"/v1/memories/{memory_id}/history?limit=100").data
        assert [event["version"] for event in events] == list(range(1, memory.version + 1))
        assert tuple(event["event_type"] for event in events) == memory.events
        assert events[-1]["snapshot"]["content"] == f"token {memory.word}"

    @rule(word=st.sampled_from(WORDS), subject_id=st.sampled_from([None, *SUBJECTS]))
    def search(self, word: str, subject_id: str | None) -> None:
        body = {"query": word, "limit": 20} | ({} if subject_id is None else {"subject_id": subject_id})
        items = self.call("POST", "/v1/memories/search", body).data
        reachable = {name for name in self.live() if subject_id in {None, self.known[name].subject_id}}
        by_words = {item["id"] for item in items if item["score"]["text_rank"] is not None}
        assert by_words == {name for name in reachable if self.known[name].word == word}
        assert {item["id"] for item in items} <= reachable
        for item in items:
            assert (item["version"], item["content"]) == (
                self.known[item["id"]].version,
                f"token {self.known[item['id']].word}",
            )

    @invariant()
    def the_list_is_what_lives(self) -> None:
        listed = {row["id"]: row for row in self.call("GET", "/v1/memories?limit=100").data}
        assert set(listed) == self.live()
        for name, row in listed.items():
            memory = self.known[name]
            shown = (row["subject_id"], row["key"], row["content"], row["version"], row["expires_at"])
            assert shown == (memory.subject_id, memory.key, f"token {memory.word}", memory.version, memory.expires_at)
            assert json.dumps(row["metadata"], sort_keys=True) == json.dumps(memory.metadata, sort_keys=True)

    @rule()
    def by_id_the_deleted_are_unknown_and_the_expired_are_not(self) -> None:
        for name, memory in self.known.items():
            reply = self.call("GET", f"/v1/memories/{name}")
            assert reply.status == (404 if memory.deleted else 200)
            assert memory.deleted or reply.data["version"] == memory.version


class ApiModelWithVectors(ApiModel):
    """The same with an embedder: nothing may come from the vector channel that should not."""

    gateway = WordModel()


@pytest.mark.parametrize("machine", [ApiModel, ApiModelWithVectors])
def test_the_api_is_a_dictionary(machine: type[ApiModel]) -> None:
    run_state_machine_as_test(machine, settings=SETTINGS)
