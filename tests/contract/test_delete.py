"""Delete and restore: a deleted memory never comes back by itself (contract: Change, promise 3)."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.contract.client import Api
from tests.contract.parallel import at_once
from tests.runtimes.base import Embedder

UNKNOWN = "01900000-0000-7000-8000-000000000000"


def test_a_delete_tells_what_it_did(api: Api, subject: str) -> None:
    """Field case 53: delete reported 0 though it worked."""
    memory = api.stored(subject_id=subject, content="Short-lived")
    first = api.delete(memory["id"]).expect(200).data
    again = api.delete(memory["id"]).expect(200).data
    assert first == {"id": memory["id"], "version": 2, "status": "deleted"}
    assert again == {"id": memory["id"], "version": 2, "status": "unchanged"}
    assert [e["event_type"] for e in api.events(memory["id"])] == ["add", "delete"]


def test_an_unknown_memory_cannot_be_deleted(api: Api) -> None:
    api.delete(UNKNOWN).expect(404, "NOT_FOUND")


def test_of_twenty_deletes_at_once_one_does_it(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Deleted by many")
    answers = at_once(lambda _: api.delete(memory["id"]), range(20))
    assert Counter(a.data["status"] for a in answers) == {"deleted": 1, "unchanged": 19}
    assert len(api.events(memory["id"])) == 2


def test_a_deleted_memory_is_gone_from_every_read_at_once(api: Api, subject: str) -> None:
    memory = api.stored(
        subject_id=subject,
        category="note",
        key="secret",
        content="The vault code is aurora-77",
        tags=["vault"],
        expires_at=api.stored(subject_id=f"{subject}-clock", content="tick")["created_at"] + 3_600_000,
    )
    api.wait_until_indexed(memory["id"])
    api.delete(memory["id"]).expect(200)
    api.get(memory["id"]).expect(404, "NOT_FOUND")
    assert api.all_listed(subject_id=subject) == []
    assert api.all_listed(subject_id=subject, include_expired=True) == []
    assert api.found("aurora-77", subject_id=subject) == []
    assert api.found("The vault code is aurora-77", subject_id=subject) == []
    assert api.tags(subject_id=subject).expect(200).data == []
    assert memory["id"] not in api.expiring(within="7d").expect(200).ids


def test_a_deleted_memory_answers_every_verb_as_unknown(api: Api, subject: str) -> None:
    """Field case 55: background updates touched tombstones."""
    memory = api.stored(subject_id=subject, content="Rest in peace")
    api.delete(memory["id"]).expect(200)
    api.verify(memory["id"]).expect(404, "NOT_FOUND")
    api.patch(memory["id"], tags=["undead"]).expect(404, "NOT_FOUND")
    api.repair().expect(200)
    assert [e["event_type"] for e in api.events(memory["id"])] == ["add", "delete"]
    api.get(memory["id"]).expect(404, "NOT_FOUND")


def test_history_of_a_deleted_memory_needs_a_writer(api: Api, agent: Api, reader: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Readers forget me")
    assert len(reader.history(memory["id"]).expect(200).data) == 1
    api.delete(memory["id"]).expect(200)
    refused = reader.history(memory["id"])
    assert refused.status in (403, 404)
    assert b"Readers forget me" not in refused.content
    assert [e["event_type"] for e in agent.history(memory["id"]).expect(200).data] == ["add", "delete"]


def test_restore_brings_the_same_record_back(api: Api, subject: str) -> None:
    fields = {"tags": ["phoenix"], "metadata": {"a": 1}, "priority": "high", "confidence": 0.5}
    before = api.stored(subject_id=subject, category="fact", key="bird", content="Rises from ashes", **fields)
    api.delete(before["id"]).expect(200)
    after = api.restore(before["id"]).expect(200).data
    changed = {"version", "updated_at", "index_status", "status", "semantic_ready"}
    assert after["version"] == 3
    assert {n: v for n, v in after.items() if n not in changed} == {n: v for n, v in before.items() if n not in changed}
    assert api.listed(subject_id=subject).ids == [before["id"]]
    assert [m["id"] for m in api.found("rises ashes", subject_id=subject)] == [before["id"]]
    assert api.tags(subject_id=subject).data != []


def test_a_restored_memory_is_found_by_meaning_again(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Pengguna lebih suka naik kereta")
    api.delete(memory["id"]).expect(200)
    api.restore(memory["id"]).expect(200)
    api.wait_until_indexed(memory["id"])
    (item,) = api.found("How does the user like to travel?", subject_id=subject)
    assert (item["id"], item["score"]["vector_rank"]) == (memory["id"], 1)


def test_an_unknown_memory_cannot_be_restored(api: Api) -> None:
    api.restore(UNKNOWN).expect(404, "NOT_FOUND")


def test_restoring_a_live_memory_changes_nothing(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Alive already")
    assert api.restore(memory["id"]).status < 500
    assert api.read(memory["id"])["content"] == "Alive already"
    assert [e["event_type"] for e in api.events(memory["id"])] == ["add"]


def test_of_twenty_restores_at_once_one_does_it(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Restored by many")
    api.delete(memory["id"]).expect(200)
    at_once(lambda _: api.restore(memory["id"]), range(20))
    assert [e["event_type"] for e in api.events(memory["id"])] == ["add", "delete", "restore"]


@pytest.mark.needs_control
def test_a_deleted_memory_stays_deleted_over_a_late_embedding(
    api: Api, embedder: Embedder, subject: str, new_name: Callable[[str], str]
) -> None:
    word = new_name("late")
    embedder.fail("status", status=500)
    memory = api.stored(subject_id=subject, content=f"Pending {word}")
    api.delete(memory["id"]).expect(200)
    embedder.clear()
    api.drain()
    assert api.found(f"Pending {word}", subject_id=subject) == []
    api.get(memory["id"]).expect(404)
    assert [e["event_type"] for e in api.events(memory["id"])] == ["add", "delete"]
