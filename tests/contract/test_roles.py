"""Roles: reads need a reader, writes a writer, the store's keys, repair and transfer an admin."""

from collections.abc import Callable

import pytest

from tests.contract.client import Answer, Api
from tests.contract.conftest import MakeCaller
from tests.runtimes.base import Role

UNKNOWN = "01900000-0000-7000-8000-000000000000"

Call = Callable[[Api, str, str], Answer]
READS: dict[str, Call] = {
    "search": lambda api, subject, _: api.search("anything", subject_id=subject),
    "list": lambda api, subject, _: api.listed(subject_id=subject),
    "expiring": lambda api, subject, _: api.expiring(subject_id=subject, within="7d"),
    "tags": lambda api, subject, _: api.tags(subject_id=subject),
    "get": lambda api, _, memory_id: api.get(memory_id),
    "history": lambda api, _, memory_id: api.history(memory_id),
    "principal": lambda api, _, __: api.principal(),
}
WRITES: dict[str, Call] = {
    "remember": lambda api, subject, _: api.remember(subject_id=subject, content="A new row"),
    "patch": lambda api, _, memory_id: api.patch(memory_id, content="Changed"),
    "verify": lambda api, _, memory_id: api.verify(memory_id),
    "delete": lambda api, _, memory_id: api.delete(memory_id),
    "restore": lambda api, _, memory_id: api.restore(memory_id),
}
ADMINISTERS: dict[str, Call] = {
    "export": lambda api, _, __: api.export(limit=1),
    "import": lambda api, _, __: api.import_lines(b"{}\n"),
    "make a key": lambda api, subject, _: api.create_key(principal=f"p-{subject}", kind="agent", role="reader"),
    "list keys": lambda api, _, __: api.request("GET", "/v1/keys"),
    "revoke a key": lambda api, _, __: api.revoke_key("unknown"),
    "repair": lambda api, _, __: api.repair(),
}
EVERY = {**READS, **WRITES, **ADMINISTERS}
ALLOWED: dict[Role, set[str]] = {
    "reader": set(READS),
    "writer": set(READS) | set(WRITES),
    "admin": set(EVERY),
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("role", ALLOWED)
def test_a_role_may_do_its_own_and_what_weaker_ones_may(
    api: Api, caller: MakeCaller, subject: str, role: Role, name: str
) -> None:
    memory = api.stored(subject_id=subject, content="Whose is it")
    answer = EVERY[name](caller(role, "human"), subject, memory["id"])
    if name in ALLOWED[role]:
        assert answer.status not in (401, 403), answer.describe()
    else:
        answer.expect(403, "FORBIDDEN")
        assert [m["version"] for m in api.all_listed(subject_id=subject)] == [1]


@pytest.mark.parametrize("name", EVERY)
def test_without_a_key_nothing_answers(api: Api, anyone: Api, subject: str, name: str) -> None:
    """Field case 71: unauthenticated by default."""
    memory = api.stored(subject_id=subject, content="Whose is it")
    EVERY[name](anyone, subject, memory["id"]).expect(401, "UNAUTHENTICATED")
    assert [m["version"] for m in api.all_listed(subject_id=subject)] == [1]


def test_a_refusal_by_role_does_not_tell_whether_the_memory_exists(api: Api, reader: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Guess me")
    known, unknown = reader.delete(memory["id"]), reader.delete(UNKNOWN)
    assert (known.status, known.error) == (unknown.status, unknown.error)


BAD_CREDENTIALS = {
    "no secret": "Bearer titen_abc",
    "empty": "Bearer",
    "no scheme": "titen_abc_def",
    "basic": "Basic dGl0ZW46eA==",
    "unknown id": "Bearer titen_00000000_" + "A" * 43,
    "garbage": "Bearer 🙂",
    "long": "Bearer titen_x_" + "y" * 5000,
    "quote": "Bearer titen_'; DROP TABLE api_keys; --_x",
    "spaces": "Bearer titen_a b_c d",
}


@pytest.mark.parametrize("credential", BAD_CREDENTIALS.values(), ids=BAD_CREDENTIALS.keys())
def test_a_malformed_or_unknown_key_is_refused(anyone: Api, credential: str) -> None:
    answer = anyone.http.request("GET", "/v1/principal", headers=[(b"Authorization", credential.encode())])
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "UNAUTHENTICATED"


def test_a_right_id_with_a_wrong_secret_answers_as_an_unknown_key(api: Api, anyone: Api) -> None:
    assert api.api_key is not None
    wrong = api.api_key[:-1] + ("A" if api.api_key[-1] != "A" else "B")
    unknown = f"titen_unknown_{api.api_key.split('_', 2)[2]}"
    answers = [
        anyone.sending(Authorization=f"Bearer {key}").principal().expect(401, "UNAUTHENTICATED")
        for key in (wrong, unknown)
    ]
    assert answers[0].error == answers[1].error
    assert api.principal().data["tenant_id"] not in answers[0].content.decode()


def test_a_longer_or_shorter_secret_is_refused(api: Api, anyone: Api) -> None:
    for key in (f"{api.api_key}x", (api.api_key or "")[:-1], f"{api.api_key}="):
        anyone.sending(Authorization=f"Bearer {key}").principal().expect(401, "UNAUTHENTICATED")
