"""Isolation: another tenant's things answer as unknown; a locked key can't move (promise 2)."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.client import Answer, Api, JsonObject
from tests.contract.conftest import MakeCaller
from tests.contract.parallel import at_once

UNKNOWN = "01900000-0000-7000-8000-000000000000"

ById = Callable[[Api, str], Answer]
BY_ID: dict[str, ById] = {
    "get": lambda api, id_: api.get(id_),
    "patch": lambda api, id_: api.patch(id_, content="Stolen"),
    "delete": lambda api, id_: api.delete(id_),
    "restore": lambda api, id_: api.restore(id_),
    "verify": lambda api, id_: api.verify(id_),
    "history": lambda api, id_: api.history(id_),
}
by_id = pytest.mark.parametrize("call", BY_ID.values(), ids=BY_ID.keys())


def answered_as_unknown(call: ById, caller: Api, foreign_id: str) -> None:
    """404 with the same body as for an id that nobody has."""
    foreign, unknown = call(caller, foreign_id), call(caller, UNKNOWN)
    foreign.expect(404, "NOT_FOUND")
    assert foreign.error == unknown.expect(404).error or foreign_id in foreign.message
    assert foreign.message.replace(foreign_id, UNKNOWN) == unknown.message


@pytest.mark.needs_control
@by_id
def test_another_tenants_memory_is_unknown(api: Api, foreign: Api, subject: str, call: ById) -> None:
    """Blueprint 20.1, case 8."""
    memory = foreign.stored(subject_id=subject, content="Theirs")
    answered_as_unknown(call, api, memory["id"])
    assert foreign.read(memory["id"])["version"] == 1


@pytest.mark.needs_control
@by_id
def test_another_tenants_deleted_memory_is_unknown(api: Api, foreign: Api, subject: str, call: ById) -> None:
    memory = foreign.stored(subject_id=subject, content="Theirs, gone")
    foreign.delete(memory["id"]).expect(200)
    answered_as_unknown(call, api, memory["id"])
    assert len(foreign.events(memory["id"])) == 2


@pytest.mark.needs_control
def test_the_same_subject_of_two_tenants_is_two(api: Api, foreign: Api, subject: str) -> None:
    """Field case 70."""
    fields = {
        "subject_id": subject,
        "category": "fact",
        "key": "k",
        "content": "Suka minum kopi",
        "tags": ["t"],
    }
    mine, theirs = api.stored(**fields), foreign.stored(**fields)
    foreign.stored(subject_id=subject, content="Suka minum kopi pagi", tags=["t", "theirs"])
    api.wait_until_indexed(mine["id"])
    foreign.wait_until_indexed(theirs["id"])
    assert [m["id"] for m in api.all_listed(subject_id=subject)] == [mine["id"]]
    for query in ("kopi", "coffee drink", "Suka minum kopi pagi"):
        assert [m["id"] for m in api.found(query, subject_id=subject, limit=20)] == [mine["id"]]
    assert [entry["count"] for entry in api.tags(subject_id=subject).data] == [1]
    assert theirs["id"] not in api.search("kopi", limit=20).ids


@pytest.mark.needs_control
def test_another_tenants_cursor_shows_nothing_of_it(api: Api, foreign: Api, subject: str) -> None:
    for n in range(3):
        foreign.stored(subject_id=subject, content=f"Theirs {n}")
    mine = api.stored(subject_id=subject, content="Mine")
    cursor = foreign.listed(subject_id=subject, limit=1).meta["next_cursor"]
    answer = api.listed(subject_id=subject, cursor=cursor)
    if answer.status == 200:
        assert set(answer.ids) <= {mine["id"]}
    else:
        answer.refused("cursor")


@pytest.mark.needs_control
def test_another_tenants_history_cursor_shows_nothing_of_it(api: Api, foreign: Api, subject: str) -> None:
    theirs = foreign.stored(subject_id=subject, content="Theirs")
    for n in range(3):
        foreign.patch(theirs["id"], content=f"Theirs {n}").expect(200)
    mine = api.stored(subject_id=subject, content="Mine")
    cursor = foreign.history(theirs["id"], limit=1).meta["next_cursor"]
    answer = api.history(mine["id"], cursor=cursor)
    assert b"Theirs" not in answer.content
    assert answer.status in (200, 400)


@pytest.mark.needs_control
def test_an_idempotency_key_of_another_tenant_is_new(api: Api, foreign: Api, subject: str) -> None:
    theirs = foreign.sending(Idempotency_Key=subject).remember(subject_id=subject, content="Same words")
    mine = api.sending(Idempotency_Key=subject).remember(subject_id=subject, content="Other words")
    assert theirs.expect(201).data["id"] != mine.expect(201).data["id"]


@pytest.mark.needs_control
def test_answers_and_scores_do_not_change_with_better_rows_of_another_tenant(
    fresh: Api, foreign: Api, subject: str
) -> None:
    for n in range(5):
        fresh.stored(subject_id=subject, content=f"Kereta pagi nomor {n} ke pasar kota tua")
    fresh.drain()
    asked: list[tuple[str, JsonObject]] = [
        (query, scope)
        for query in ("kereta pagi", "morning train", "kota tua nomor 3")
        for scope in ({"subject_id": subject}, {})
    ]
    before = [fresh.found(query, limit=20, **scope) for query, scope in asked]
    at_once(lambda n: foreign.stored(subject_id=subject, content=f"kereta pagi {n}"), range(100))
    foreign.drain()
    assert [fresh.found(query, limit=20, **scope) for query, scope in asked] == before


@by_id
def test_a_memory_of_another_subject_is_unknown_to_a_locked_key(
    api: Api, caller: MakeCaller, subject: str, call: ById
) -> None:
    """Blueprint 20.1, case 9."""
    locked = caller("admin", "human", subject)
    memory = api.stored(subject_id=f"{subject}-2", content="Not about you")
    answered_as_unknown(call, locked, memory["id"])
    assert api.read(memory["id"])["version"] == 1


NAMING: dict[str, Callable[[Api, str], Answer]] = {
    "remember": lambda api, name: api.remember(subject_id=name, content="Smuggled"),
    "search": lambda api, name: api.search("anything", subject_id=name),
    "list": lambda api, name: api.listed(subject_id=name),
    "expiring": lambda api, name: api.expiring(subject_id=name, within="7d"),
    "tags": lambda api, name: api.tags(subject_id=name),
}


@pytest.mark.parametrize("call", NAMING.values(), ids=NAMING.keys())
@pytest.mark.parametrize("exists", [True, False], ids=["existing", "unknown"])
def test_a_locked_key_that_names_another_subject_is_forbidden(
    api: Api, caller: MakeCaller, subject: str, call: Callable[[Api, str], Answer], exists: bool
) -> None:
    other = f"{subject}-2"
    if exists:
        api.stored(subject_id=other, content="Not about you")
    call(caller("writer", "agent", subject), other).expect(403, "FORBIDDEN")
    assert len(api.all_listed(subject_id=other)) == int(exists)


def test_a_locked_key_works_on_its_own_subject_named_or_not(api: Api, caller: MakeCaller, subject: str) -> None:
    locked = caller("writer", "agent", subject)
    mine = locked.stored(content="About me", tags=["me"])
    api.stored(subject_id=f"{subject}-2", content="About somebody else, about me", tags=["me"])
    scopes: list[dict[str, Any]] = [{}, {"subject_id": subject}]
    for scope in scopes:
        assert [m["id"] for m in locked.found("about me", limit=20, **scope)] == [mine["id"]]
        assert locked.listed(**scope).expect(200).ids == [mine["id"]]
        assert [t["count"] for t in locked.tags(**scope).expect(200).data] == [1]
    assert locked.patch(mine["id"], content="About me, edited").expect(200).data["version"] == 2
    assert locked.delete(mine["id"]).expect(200).data["status"] == "deleted"


def test_subjects_are_compared_exactly(api: Api, caller: MakeCaller, subject: str) -> None:
    locked = caller("reader", "agent", subject)
    for near in (subject.upper(), f"{subject} ", f" {subject}", f"{subject}%", subject[:-1]):
        api.stored(subject_id=near, content="Almost you")
        locked.listed(subject_id=near).expect(403, "FORBIDDEN")
    assert locked.all_listed() == []
    assert locked.found("almost you") == []


def test_the_tenant_is_never_taken_from_a_request(api: Api, subject: str) -> None:
    """Field case 71: user ids in requests were trusted."""
    tenant_id = api.principal().data["tenant_id"]
    api.remember(subject_id=subject, content="x", tenant_id=tenant_id).refused("tenant_id")
    api.listed(subject_id=subject, tenant_id=tenant_id).refused("tenant_id")
    api.request(
        "POST", "/v1/memories/search", json={"query": "x", "subject_id": subject, "tenant_id": tenant_id}
    ).refused("tenant_id")
