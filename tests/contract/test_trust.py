"""Who said it and how sure: author, verified, confidence (contract: A memory)."""

import pytest

from tests.contract.client import Api, JsonObject
from tests.contract.conftest import MakeCaller
from tests.runtimes.base import PrincipalKind

UNKNOWN = "01900000-0000-7000-8000-000000000000"


def trust(memory: JsonObject) -> tuple[str, bool, float]:
    return memory["author"], memory["verified"], memory["confidence"]


def test_what_a_human_writes_is_verified_and_sure(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Said by a human")
    assert trust(memory) == ("human", True, 1.0)
    assert type(memory["verified_at"]) is int
    assert memory["verified_by"] == api.principal().data["principal"]


@pytest.mark.parametrize("kind", ["agent", "service"])
def test_what_another_writes_is_not_verified(caller: MakeCaller, subject: str, kind: PrincipalKind) -> None:
    memory = caller("writer", kind).stored(subject_id=subject, content=f"Said by an {kind}")
    assert trust(memory) == (kind, False, 0.7)
    assert (memory["verified_at"], memory["verified_by"]) == (None, None)


@pytest.mark.parametrize("confidence", [0.0, 0, 0.5, 1, 1.0])
def test_a_given_confidence_is_kept(agent: Api, subject: str, confidence: float) -> None:
    memory = agent.stored(subject_id=subject, content="Doubted", confidence=confidence)
    assert memory["confidence"] == confidence
    assert agent.read(memory["id"])["confidence"] == confidence


def test_an_agent_that_rewrites_a_key_takes_over(api: Api, agent: Api, subject: str) -> None:
    keyed = {"subject_id": subject, "category": "fact", "key": "home"}
    api.stored(**keyed, content="Lives in Solo")
    memory = agent.remember(**keyed, content="Lives in Semarang").expect(200).data
    assert trust(memory) == ("agent", False, 0.7)
    assert (memory["verified_at"], memory["verified_by"]) == (None, None)


def test_a_human_that_rewrites_a_key_takes_over(api: Api, agent: Api, subject: str) -> None:
    keyed = {"subject_id": subject, "category": "fact", "key": "home"}
    agent.stored(**keyed, content="Lives in Solo")
    memory = api.remember(**keyed, content="Lives in Semarang").expect(200).data
    assert trust(memory) == ("human", True, 1.0)


def test_a_confidence_that_was_given_outlives_a_change_of_content(api: Api, agent: Api, subject: str) -> None:
    keyed = {"subject_id": subject, "category": "fact", "key": "age"}
    api.stored(**keyed, content="Is 30", confidence=0.9)
    assert agent.remember(**keyed, content="Is 31").expect(200).data["confidence"] == 0.9


def test_an_agent_that_patches_the_content_clears_the_verification(api: Api, agent: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Human words")
    assert trust(agent.patch(memory["id"], content="Agent words").expect(200).data) == ("agent", False, 0.7)


def test_an_agent_that_patches_something_else_leaves_it(api: Api, agent: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Human words")
    patched = agent.patch(memory["id"], tags=["tidy"], metadata={"a": 1}, priority="low").expect(200).data
    assert trust(patched) == ("human", True, 1.0)


def test_an_agent_that_repeats_a_humans_words_leaves_them(api: Api, agent: Api, subject: str) -> None:
    api.stored(subject_id=subject, content="Agreed by all")
    memory = agent.remember(subject_id=subject, content="Agreed by all", tags=["echo"]).expect(200).data
    assert trust(memory) == ("human", True, 1.0)


def test_a_human_that_patches_the_content_becomes_its_author(api: Api, agent: Api, subject: str) -> None:
    memory = agent.stored(subject_id=subject, content="Agent words")
    assert trust(api.patch(memory["id"], content="Human words").expect(200).data) == ("human", True, 1.0)


def test_a_human_verifies_what_an_agent_wrote(api: Api, agent: Api, subject: str) -> None:
    memory = agent.stored(subject_id=subject, content="Please check me")
    verified = api.verify(memory["id"]).expect(200).data
    assert (verified["author"], verified["verified"], verified["version"]) == ("agent", True, 2)
    assert verified["verified_by"] == api.principal().data["principal"]
    assert type(verified["verified_at"]) is int
    assert verified["content"] == "Please check me"
    assert [e["event_type"] for e in api.events(memory["id"])] == ["add", "verify"]


def test_an_agents_change_of_content_clears_what_was_verified(api: Api, agent: Api, subject: str) -> None:
    memory = agent.stored(subject_id=subject, content="Please check me")
    api.verify(memory["id"]).expect(200)
    after = agent.patch(memory["id"], content="Changed after the check").expect(200).data
    assert (after["verified"], after["verified_at"], after["verified_by"]) == (False, None, None)


@pytest.mark.parametrize("kind", ["agent", "service"])
def test_only_a_human_verifies(caller: MakeCaller, api: Api, subject: str, kind: PrincipalKind) -> None:
    writer = caller("admin", kind)
    memory = writer.stored(subject_id=subject, content="Trust me")
    writer.verify(memory["id"]).expect(403, "HUMAN_REQUIRED")
    assert trust(api.read(memory["id"])) == (kind, False, 0.7)


def test_a_human_who_may_only_read_does_not_verify(caller: MakeCaller, agent: Api, subject: str) -> None:
    memory = agent.stored(subject_id=subject, content="Look, do not touch")
    caller("reader", "human").verify(memory["id"]).expect(403, "FORBIDDEN")


def test_verifying_an_unknown_memory_is_not_found(api: Api) -> None:
    api.verify(UNKNOWN).expect(404, "NOT_FOUND")


def test_verifying_does_not_disturb_the_index(api: Api, agent: Api, subject: str) -> None:
    memory = agent.stored(subject_id=subject, content="Indexed before the check")
    api.wait_until_indexed(memory["id"])
    assert api.verify(memory["id"]).expect(200).data["index_status"] == "ready"
