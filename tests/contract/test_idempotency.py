"""Idempotency keys: the same request replays its outcome, another one is a conflict (contract: HTTP)."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.contract.client import Answer, Api
from tests.contract.parallel import at_once
from tests.runtimes.base import Runtime


def remember(api: Api, token: str, subject: str, content: str) -> Answer:
    return api.sending(Idempotency_Key=token).remember(subject_id=subject, content=content)


def test_the_same_request_replays_its_outcome(api: Api, subject: str) -> None:
    first = remember(api, subject, subject, "Once only").expect(201)
    again = remember(api, subject, subject, "Once only").expect(201)
    outcome = ("id", "version", "status", "content")
    assert {n: again.data[n] for n in outcome} == {n: first.data[n] for n in outcome}
    assert first.meta["request_id"] != again.meta["request_id"]
    assert len(api.events(first.data["id"])) == 1


def test_a_replay_tells_the_outcome_of_then(api: Api, subject: str) -> None:
    keyed = {"subject_id": subject, "category": "fact", "key": "k"}
    api.stored(**keyed, content="One")
    update = api.sending(Idempotency_Key=subject)
    assert update.remember(**keyed, content="Two").expect(200).data["status"] == "updated"
    api.remember(**keyed, content="Three").expect(200)
    again = update.remember(**keyed, content="Two").expect(200).data
    assert (again["status"], again["version"]) == ("updated", 2)
    assert api.all_listed(subject_id=subject)[0]["content"] == "Three"


def test_another_body_is_a_conflict(api: Api, subject: str) -> None:
    first = remember(api, subject, subject, "One thing")
    remember(api, subject, subject, "Another thing").expect(409, "IDEMPOTENCY_CONFLICT")
    assert [m["id"] for m in api.all_listed(subject_id=subject)] == [first.data["id"]]


def test_another_route_is_a_conflict(api: Api, subject: str) -> None:
    first = remember(api, subject, subject, "One thing")
    api.delete(first.data["id"]).expect(200)
    api.sending(Idempotency_Key=subject).restore(first.data["id"]).expect(409, "IDEMPOTENCY_CONFLICT")
    api.get(first.data["id"]).expect(404)


@pytest.mark.parametrize("action", ["restore", "verify"])
def test_restore_and_verify_replay_too(api: Api, agent: Api, subject: str, action: str) -> None:
    memory = agent.stored(subject_id=subject, content="Do it once")
    if action == "restore":
        api.delete(memory["id"]).expect(200)
    sender = api.sending(Idempotency_Key=subject)
    call = sender.restore if action == "restore" else sender.verify
    first = call(memory["id"]).expect(200).data
    again = call(memory["id"]).expect(200).data
    assert (again["id"], again["version"]) == (first["id"], first["version"])
    assert Counter(e["event_type"] for e in api.events(memory["id"]))[action] == 1


def test_a_replayed_restore_does_not_undo_a_later_delete(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Back once")
    api.delete(memory["id"]).expect(200)
    sender = api.sending(Idempotency_Key=subject)
    sender.restore(memory["id"]).expect(200)
    api.delete(memory["id"]).expect(200)
    sender.restore(memory["id"])
    api.get(memory["id"]).expect(404, "NOT_FOUND")


def test_a_replay_after_the_delete_brings_no_content_back(api: Api, subject: str) -> None:
    first = remember(api, subject, subject, "Forget these words").expect(201)
    api.delete(first.data["id"]).expect(200)
    again = remember(api, subject, subject, "Forget these words")
    assert (again.data["id"], again.data["version"], again.data["status"]) == (first.data["id"], 1, "stored")
    assert "Forget these words" not in again.content.decode()
    api.get(first.data["id"]).expect(404, "NOT_FOUND")


def test_it_belongs_to_one_key(api: Api, agent: Api, subject: str) -> None:
    first = remember(api, subject, subject, "By the human").expect(201)
    second = remember(agent, subject, subject, "By the agent").expect(201)
    assert first.data["id"] != second.data["id"]


def test_a_refused_request_does_not_use_it_up(api: Api, subject: str) -> None:
    remember(api, subject, subject, " ").refused("content")
    remember(api, subject, subject, "Now it is right").expect(201)


def test_of_twenty_identical_requests_at_once_one_is_done(api: Api, subject: str) -> None:
    answers = at_once(lambda _: remember(api, subject, subject, "All together now"), range(20))
    done = [a for a in answers if a.status == 201]
    assert {a.status for a in answers} <= {201, 503}
    assert len({a.data["id"] for a in done}) == 1
    assert len(api.all_listed(subject_id=subject)) == 1


def test_of_twenty_different_requests_at_once_one_is_done(api: Api, subject: str) -> None:
    answers = at_once(lambda n: remember(api, subject, subject, f"Only one of us: {n}"), range(20))
    assert Counter(a.status for a in answers) == {201: 1, 409: 19}
    assert len(api.all_listed(subject_id=subject)) == 1


@pytest.mark.parametrize("length", [1, 255])
def test_its_length_is_free_up_to_the_bound(api: Api, subject: str, length: int) -> None:
    token = (subject * 20)[-length:] if length > 1 else subject[-1]
    remember(api, token, subject, f"Token of {length}")
    assert remember(api, token, subject, f"Token of {length}").status < 500


def test_one_byte_more_is_refused(api: Api, subject: str) -> None:
    remember(api, "x" * 256, subject, "Too long a token").refused("Idempotency-Key", "255")
    assert api.all_listed(subject_id=subject) == []


def test_an_empty_one_is_refused(api: Api, subject: str) -> None:
    remember(api, "", subject, "No token").refused("Idempotency-Key")


@pytest.mark.needs_control
def test_it_survives_a_restart(api: Api, runtime: Runtime, new_name: Callable[[str], str]) -> None:
    subject = new_name("subject")
    first = remember(api, subject, subject, "Kept over a restart").expect(201)
    runtime.restart()
    again = remember(api, subject, subject, "Kept over a restart").expect(201)
    assert again.data["id"] == first.data["id"]
    remember(api, subject, subject, "Another body").expect(409, "IDEMPOTENCY_CONFLICT")
