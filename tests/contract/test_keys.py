"""API keys over REST: never stronger than their maker, shown once, gone when revoked."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.client import Api
from tests.contract.conftest import MakeCaller
from tests.contract.expired import now_ms

NewName = Callable[[str], str]


def test_a_new_key_works_and_is_who_it_says(api: Api, anyone: Api, new_name: NewName) -> None:
    name, subject = new_name("bot"), new_name("subject")
    made = api.create_key(principal=name, kind="agent", role="writer", subject_id=subject).expect(201).data
    _, key_id, secret = made["api_key"].split("_", 2)
    assert key_id == made["id"]
    assert len(secret) >= 43
    me = Api(anyone.http, made["api_key"]).principal().expect(200).data
    expected = {"principal": name, "kind": "agent", "role": "writer", "subject_id": subject, "expires_at": None}
    assert {field: me[field] for field in expected} == expected
    assert me["tenant_id"] == api.principal().data["tenant_id"]


def test_the_first_key_is_a_human_admin(api: Api) -> None:
    me = api.principal().expect(200).data
    assert (me["kind"], me["role"], me["subject_id"]) == ("human", "admin", None)


def test_the_list_shows_keys_without_their_secrets(api: Api, new_name: NewName) -> None:
    made = api.create_key(principal=new_name("bot"), kind="service", role="reader").expect(201).data
    answer = api.request("GET", "/v1/keys").expect(200)
    listed = {key["id"]: key for key in answer.data}[made["id"]]
    assert (listed["kind"], listed["role"]) == ("service", "reader")
    assert made["api_key"].split("_", 2)[2] not in answer.content.decode()
    assert not {name for name in listed if "secret" in name or "hash" in name or name == "api_key"}


def test_a_revoked_key_is_refused_at_once(api: Api, anyone: Api, new_name: NewName) -> None:
    made = api.create_key(principal=new_name("bot"), kind="agent", role="writer").expect(201).data
    caller = Api(anyone.http, made["api_key"])
    caller.principal().expect(200)
    api.revoke_key(made["id"]).expect(200)
    caller.principal().expect(401, "UNAUTHENTICATED")
    caller.search("anything").expect(401, "UNAUTHENTICATED")


def test_revoking_twice_is_harmless_and_an_unknown_key_is_not_found(api: Api, new_name: NewName) -> None:
    made = api.create_key(principal=new_name("bot"), kind="agent", role="writer").expect(201).data
    api.revoke_key(made["id"]).expect(200)
    api.revoke_key(made["id"]).expect(200)
    api.revoke_key("00000000").expect(404, "NOT_FOUND")


def test_an_expired_key_is_refused(api: Api, anyone: Api, new_name: NewName) -> None:
    expires_at = now_ms() + 400
    made = api.create_key(principal=new_name("bot"), kind="agent", role="writer", expires_at=expires_at)
    caller = Api(anyone.http, made.expect(201).data["api_key"])
    while now_ms() <= expires_at:
        time.sleep(0.01)
    caller.principal().expect(401, "UNAUTHENTICATED")


def test_only_a_human_admin_makes_human_keys(caller: MakeCaller, new_name: NewName) -> None:
    fields = {"principal": new_name("person"), "kind": "human", "role": "reader"}
    for kind in ("agent", "service"):
        maker = caller("admin", "agent" if kind == "agent" else "service")
        assert maker.create_key(**fields).expect(403).code in ("FORBIDDEN", "HUMAN_REQUIRED")
    caller("admin", "human").create_key(**fields).expect(201)


def test_an_agent_admin_makes_agent_keys(caller: MakeCaller, new_name: NewName) -> None:
    caller("admin", "agent").create_key(principal=new_name("bot"), kind="agent", role="admin").expect(201)


def test_a_locked_admin_cannot_make_a_wider_key(caller: MakeCaller, subject: str, new_name: NewName) -> None:
    locked = caller("admin", "human", subject)
    fields: dict[str, Any] = {"kind": "agent", "role": "reader"}
    locked.create_key(principal=new_name("bot"), **fields, subject_id=f"{subject}-2").expect(403, "FORBIDDEN")
    made = locked.create_key(principal=new_name("bot"), **fields)
    if made.status == 201:
        assert Api(locked.http, made.data["api_key"]).principal().data["subject_id"] == subject
    else:
        made.expect(403, "FORBIDDEN")
    locked.create_key(principal=new_name("bot"), **fields, subject_id=subject).expect(201)


def test_a_locked_admin_neither_sees_nor_revokes_wider_keys(
    api: Api, caller: MakeCaller, subject: str, new_name: NewName
) -> None:
    wide = api.create_key(principal=new_name("bot"), kind="agent", role="writer").expect(201).data
    locked = caller("admin", "human", subject)
    assert locked.revoke_key(wide["id"]).status in (403, 404)
    Api(api.http, wide["api_key"]).principal().expect(200)


@pytest.mark.needs_control
def test_another_tenants_keys_are_unknown(api: Api, foreign: Api, new_name: NewName) -> None:
    theirs = foreign.create_key(principal=new_name("bot"), kind="agent", role="writer").expect(201).data
    unknown = api.revoke_key("00000000").expect(404)
    assert api.revoke_key(theirs["id"]).expect(404).error.keys() == unknown.error.keys()
    assert theirs["id"] not in api.request("GET", "/v1/keys").expect(200).content.decode()
    Api(api.http, theirs["api_key"]).principal().expect(200)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("role", "owner"),
        ("role", None),
        ("kind", "robot"),
        ("principal", ""),
        ("principal", "a\0b"),
        ("subject_id", ""),
        ("subject_id", "x" * 257),
        ("expires_at", "tomorrow"),
        ("expires_at", "2030-01-01T00:00:00"),
        ("secret", "mine"),
        ("tenant_id", "other"),
    ],
)
def test_a_key_with_a_bad_field_is_not_made(api: Api, new_name: NewName, field: str, value: object) -> None:
    fields: dict[str, Any] = {"principal": new_name("bot"), "kind": "agent", "role": "reader"}
    api.create_key(**{**fields, field: value}).refused(field)
