"""The Python client against a running service: every operation, both ways of waiting, and lost answers."""

import asyncio
import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.contract.client import Api
from tests.runtimes.base import Runtime, Tenant
from titen_client import (
    AsyncTiten,
    ConversationFields,
    Forbidden,
    HumanRequired,
    NotFound,
    Titen,
    Unauthenticated,
    Unreachable,
    ValidationError,
    VersionConflict,
)
from titen_client.exchange import ATTEMPTS_MAX

pytestmark = pytest.mark.needs_control


@pytest.fixture(scope="module")
def titen(runtime: Runtime, tenant: Tenant) -> Iterator[Titen]:
    with Titen(runtime.base_url, tenant.admin.api_key) as client:
        yield client


def test_a_memory_lives_and_is_changed_verified_forgotten_and_restored(titen: Titen, subject: str) -> None:
    made = titen.remember(
        "Prefers night trains", subject_id=subject, category="preference", key="travel", tags=["travel"],
        source={"type": "chat", "ref": "turn/1"}, metadata={"n": 1}, expires_at="2099-01-01T00:00:00Z",
    )  # fmt: skip
    assert (made["status"], made["version"], made["verified"]) == ("stored", 1, True)
    assert (
        titen.remember("Prefers night trains", subject_id=subject, category="preference", key="travel")["status"]
        == "unchanged"
    )
    changed = titen.update(made["id"], expected_version=1, content="Prefers day trains", expires_at=None)
    assert (changed["status"], changed["expires_at"], changed["tags"]) == ("updated", None, ["travel"])
    with pytest.raises(VersionConflict) as conflict:
        titen.update(made["id"], expected_version=1, priority="low")
    assert conflict.value.details == {"version": 2}
    assert titen.verify(made["id"], expected_version=2)["status"] in {"verified", "unchanged"}
    assert titen.forget(made["id"])["status"] == "deleted"
    assert titen.forget(made["id"])["status"] == "unchanged"
    with pytest.raises(NotFound) as unknown:
        titen.get(made["id"])
    assert unknown.value.request_id
    assert titen.restore(made["id"])["status"] == "restored"
    assert titen.get(made["id"])["content"] == "Prefers day trains"
    assert [event["event_type"] for event in titen.history(made["id"], page_size=1)][:2] == ["add", "update"]


def test_recall_and_digest_find_what_was_remembered(titen: Titen, subject: str) -> None:
    for content in ("Kereta malam ke Surabaya", "Ticket POL-358 waits for the bank"):
        titen.remember(content, subject_id=subject, kind="episodic", tags=["a", "b"])
    recalled = titen.recall(
        "POL-358", subject_id=subject, limit=1, filters={"kind": ["episodic"], "tags": ["a", "b"], "tags_match": "all"}
    )
    assert [item["content"] for item in recalled] == ["Ticket POL-358 waits for the bank"]
    assert recalled.meta["channels"]["text"] == "ok"
    assert recalled.meta["scope"]["subject_id"] == subject
    assert len(titen.recall("POL-358", subject_id=subject, filters={"verified": False})) == 0
    assert "Kereta malam" in titen.digest(subject, max_tokens=500)
    assert "POL-358" in titen.digest(subject, about="POL-358")


def test_lists_go_on_over_every_page(titen: Titen, subject: str) -> None:
    for number in range(5):
        titen.remember(f"Fact {number}", subject_id=subject, tags=[f"t{number % 2}"], expires_at="2099-01-01T00:00:00Z")
    everything = [memory["content"] for memory in titen.memories(subject_id=subject, page_size=2)]
    assert everything == [f"Fact {number}" for number in reversed(range(5))]
    filtered = titen.memories(subject_id=subject, page_size=1, filters={"tags": ["t0"], "include_expired": True})
    assert [memory["content"] for memory in filtered] == ["Fact 4", "Fact 2", "Fact 0"]
    assert {tag["tag"]: tag["count"] for tag in titen.tags(subject_id=subject)} == {"t0": 3, "t1": 2}
    assert titen.expiring("36h", subject_id=subject, limit=3) == []


def test_a_conversation_becomes_memories(titen: Titen, subject: str, runtime: Runtime) -> None:
    runtime.chat.say(
        json.dumps({"memories": [{"action": "add", "content": "Moved to Yogyakarta", "kind": "semantic"}]})
    )
    fields: ConversationFields = {"subject_id": subject, "source": {"type": "chat"}}
    try:
        done = titen.remember_conversation([{"role": "user", "content": "I moved to Yogyakarta"}], **fields)
    finally:
        runtime.chat.clear()
    assert [memory["content"] for memory in done.memories] == ["Moved to Yogyakarta"]
    assert done.refused == []
    assert done.usage is not None
    assert done.usage["input_tokens"] > 0


def test_an_export_moves_to_another_tenant_page_by_page(titen: Titen, runtime: Runtime, subject: str) -> None:
    with Titen(runtime.base_url, runtime.new_tenant().admin.api_key) as old:
        for number in range(5):
            old.remember(f"Fact {number}", subject_id=subject)
        old.forget(old.remember("Gone", subject_id=subject)["id"])
        pages = list(old.export(page_size=2, deleted=True))
        kept = list(old.memories(subject_id=subject))
    assert len(pages) == 3
    report = titen.import_lines([*pages[:1], b"not json\n", *pages[1:]])
    broken = pages[0].count(b"\n") + 1
    assert (report["imported"], report["complete"]) == (6, True)
    assert [error["line"] for error in report["errors"]] == [broken, broken + 3]  # it, and its page's summary
    moved = list(titen.memories(subject_id=subject))
    assert [(memory["id"], memory["content"]) for memory in moved] == [
        (memory["id"], memory["content"]) for memory in kept
    ]
    assert titen.import_lines(b"".join(pages).splitlines(keepends=True))["unchanged"] == 6
    cut = titen.import_lines(pages[:2])
    assert (cut["unchanged"], cut["complete"]) == (4, False)
    assert cut["warning"]


def test_keys_are_made_used_and_revoked(
    titen: Titen, runtime: Runtime, subject: str, new_name: Callable[[str], str]
) -> None:
    me = titen.principal()
    assert (me["kind"], me["role"], me["subject_id"]) == ("human", "admin", None)
    made = titen.create_key(new_name("bot"), kind="agent", role="writer", subject_id=subject, label="tests")
    known = titen.keys()
    assert made["id"] in {key["id"] for key in known}
    with Titen(runtime.base_url, made["api_key"]) as agent:
        memory = agent.remember("Told by the agent")
        assert (memory["subject_id"], memory["author"], memory["verified"]) == (subject, "agent", False)
        with pytest.raises(HumanRequired):
            agent.verify(memory["id"])
        with pytest.raises(Forbidden):
            agent.keys()
        with pytest.raises(ValidationError) as refused:
            agent.remember("x", key="a key without its category")
        assert "category" in refused.value.message
        assert titen.revoke_key(made["id"])["revoked_at"] is not None
        with pytest.raises(Unauthenticated):
            agent.principal()


def test_the_same_without_blocking(runtime: Runtime, tenant: Tenant, subject: str) -> None:
    async def talk() -> None:
        async with AsyncTiten(runtime.base_url, tenant.admin.api_key) as titen:
            made = await asyncio.gather(*(titen.remember(f"Fact {n}", subject_id=subject) for n in range(5)))
            assert {memory["status"] for memory in made} == {"stored"}
            listed = [memory["id"] async for memory in titen.memories(subject_id=subject, page_size=2)]
            assert sorted(listed) == sorted(memory["id"] for memory in made)
            recalled = await titen.recall("Fact 3", subject_id=subject, limit=1)
            assert recalled.items[0]["content"] == "Fact 3"
            assert (await titen.forget(listed[0]))["status"] == "deleted"
            with pytest.raises(NotFound):
                await titen.get(listed[0])

    asyncio.run(talk())


class LosesTheFirstAnswer(httpx.HTTPTransport):
    """Carries the request out, and loses what came back."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        response = super().handle_request(request)
        if len(self.sent) == 1:
            response.read()
            response.close()
            raise httpx.ReadError("cut")
        return response


def test_a_fact_whose_answer_was_lost_is_stored_once_and_told_as_stored(
    runtime: Runtime, api: Api, tenant: Tenant, subject: str
) -> None:
    lossy = LosesTheFirstAnswer()
    with Titen(runtime.base_url, tenant.admin.api_key, transport=lossy) as titen:
        made = titen.remember("Said once", subject_id=subject, kind="episodic")
    assert len({request.headers["idempotency-key"] for request in lossy.sent}) == 1
    assert len(lossy.sent) == 2
    assert (made["status"], made["version"]) == ("stored", 1)
    assert [memory["id"] for memory in api.all_listed(subject_id=subject)] == [made["id"]]


def test_a_change_whose_answer_was_lost_is_not_sent_again(
    runtime: Runtime, api: Api, tenant: Tenant, subject: str
) -> None:
    made = api.remember(subject_id=subject, content="Before").expect(201).data
    lossy = LosesTheFirstAnswer()
    with Titen(runtime.base_url, tenant.admin.api_key, transport=lossy) as titen, pytest.raises(Unreachable):
        titen.update(made["id"], content="After")
    assert len(lossy.sent) == 1
    assert api.read(made["id"])["content"] == "After"


def test_nothing_at_an_address_is_unreachable_and_names_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("titen_client.clients.time.sleep", pauses.append)
    with Titen("http://127.0.0.1:9", "titen_a_secret") as titen, pytest.raises(Unreachable) as unreachable:
        titen.create_key("x", kind="agent", role="reader")
    assert "titen_a_secret" not in str(unreachable.value)
    assert len(pauses) == ATTEMPTS_MAX - 1
