"""Humans sign in: `titen token create` and a service with the same secret, as real processes."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.vps.conftest import Store
from tests.vps.process import running, titen

SECRET = "a secret that an operator made of 32 random bytes"
WITH_SECRET = {"TITEN_JWT_SECRET": SECRET}


def call(url: str, token: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def test_a_human_signs_in_and_what_they_write_is_verified(store: Store) -> None:
    named = ("--human", "--tenant", store.tenant_id, "--name", "Rina", "--subject", "user_123", "--hours", "2")
    made = titen("token", "create", "--db", store.db, *named, "--json", env=WITH_SECRET)
    assert made.code == 0, made.err
    token = made.document["token"]
    assert (made.document["tenant_id"], made.document["role"]) == (store.tenant_id, "writer")
    with running("serve", "--db", store.db, "--port", "0", env=WITH_SECRET) as service:
        note = {"category": "identity", "key": "identity_name", "content": "Rina Wulandari", "source": "user"}
        status, record = call(f"{service.url}/memory", token, note)
        assert (status, record["source"], record["verified"], record["mind_id"]) == (201, "user", True, "user_123")
        status, me = call(f"{service.url}/v1/principal", token)
        assert (me["data"]["principal"], me["data"]["kind"]) == ("jwt:Rina", "human")
        assert token not in service.err + "".join(service.lines)
    with running("serve", "--db", store.db, "--port", "0", env={"TITEN_JWT_SECRET": SECRET[::-1]}) as service:
        assert call(f"{service.url}/v1/principal", token)[0] == 401
    with running("serve", "--db", store.db, "--port", "0") as service:
        assert call(f"{service.url}/v1/principal", token)[0] == 401


def test_the_service_does_not_start_with_a_short_secret(store: Store) -> None:
    ran = titen("serve", "--db", store.db, "--port", "0", env={"TITEN_JWT_SECRET": "x" * 31})
    assert ran.code == 2
    assert ran.err == "Error: TITEN_JWT_SECRET must be at least 32 bytes of secret text.\n"


@pytest.mark.parametrize(
    ("arguments", "env", "said"),
    [
        (("--name", "Rina"), WITH_SECRET, "--human"),
        (("--human", "--name", "Rina"), {}, "TITEN_JWT_SECRET"),
        (("--human", "--name", "Rina", "--tenant", "unknown"), WITH_SECRET, "titen tenant list"),
        (("--human", "--name", "Rina", "--hours", "25"), WITH_SECRET, "--hours"),
        (("--human", "--name", "  "), WITH_SECRET, "name"),
    ],
)
def test_what_is_wrong_is_said(store: Store, arguments: tuple[str, ...], env: dict[str, str], said: str) -> None:
    ran = titen("token", "create", "--db", store.db, *arguments, env=env)
    assert ran.code != 0
    assert ran.out == ""
    assert said in ran.err
    assert SECRET not in ran.err


def test_doctor_masks_the_secret(store: Store) -> None:
    ran = titen("doctor", "--db", store.db, env=WITH_SECRET)
    assert "TITEN_JWT_SECRET" in ran.out
    assert SECRET not in ran.out + ran.err
