"""Humans sign in with a token, on both surfaces (contract: Synapse surface)."""

import time
from collections.abc import Iterator

import httpx
import jwt
import pytest

from tests.contract.client import Api
from tests.contract.conftest import start_runtime
from tests.runtimes.base import Tenant
from tests.runtimes.client import open_client

pytestmark = [pytest.mark.needs_control, pytest.mark.xdist_group("sign_in")]

SECRET = "what the login page and the service both know"


class SignIn:
    """A service that knows the secret, with one tenant."""

    def __init__(self, http: httpx.Client, tenant: Tenant) -> None:
        self.http, self.tenant = http, tenant
        self.admin = Api(http, tenant.admin.api_key)

    def by(self, secret: str = SECRET, algorithm: str = "HS256", **claims: object) -> Api:
        """A caller with a token of these claims."""
        now = int(time.time())
        whole = {"sub": "Rina", "tenant": self.tenant.id, "iat": now, "exp": now + 600, **claims}
        return Api(self.http, jwt.encode(whole, secret, algorithm=algorithm))


@pytest.fixture(scope="module")
def sign_in(runtime_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignIn]:
    runtime = start_runtime(runtime_name, tmp_path_factory, TITEN_JWT_SECRET=SECRET)
    try:
        with open_client(runtime.base_url) as http:
            yield SignIn(http, runtime.new_tenant())
    finally:
        runtime.close()


def test_a_human_verifies_what_a_mind_stored(sign_in: SignIn, subject: str) -> None:
    named = {"principal": "mind", "kind": "agent", "role": "writer", "subject_id": subject}
    mind = Api(sign_in.http, sign_in.admin.create_key(**named).expect(201).data["api_key"])
    note = {"category": "identity", "key": "identity_name", "content": "Rina Wulandari"}
    record = mind.request("POST", "/memory", json=note).expect(201).body
    assert record["verified"] is False
    mind.request("POST", f"/memory/{record['id']}/verify").expect(403, "HUMAN_REQUIRED")
    human = sign_in.by()
    assert human.request("POST", f"/memory/{record['id']}/verify").expect(200).body["verified"] is True
    assert human.read(record["id"])["verified_by"] == "jwt:Rina"


def test_a_token_is_a_human_writer_unless_it_says_otherwise(sign_in: SignIn, subject: str) -> None:
    me = sign_in.by().principal().expect(200).data
    assert (me["principal"], me["kind"], me["role"], me["subject_id"]) == ("jwt:Rina", "human", "writer", None)
    locked = sign_in.by(subject=subject, role="reader")
    me = locked.principal().expect(200).data
    assert (me["role"], me["subject_id"]) == ("reader", subject)
    locked.remember(content="x").expect(403, "FORBIDDEN")
    memory = sign_in.by(subject=subject).stored(content="Said by a human")
    assert (memory["subject_id"], memory["author"], memory["verified"]) == (subject, "human", True)


def test_everything_else_is_refused_in_the_same_words(sign_in: SignIn) -> None:
    now = int(time.time())
    hostile = [
        sign_in.by(tenant="01900000-0000-7000-8000-000000000000"),
        sign_in.by(secret="another secret, which is long enough as well"),
        sign_in.by(algorithm="HS512", secret=SECRET * 2),
        sign_in.by(exp=now - 60),
        sign_in.by(exp=now + 25 * 3600),
        sign_in.by(iat=now + 3600, exp=now + 7200),
        sign_in.by(role="owner"),
        sign_in.by(exp="tomorrow"),
        sign_in.by(aud="elsewhere"),
        Api(sign_in.http, "eyJhbGciOiJub25lIn0.eyJzdWIiOiJSaW5hIn0."),
        Api(sign_in.http, "titen_nobody_knows"),
    ]
    faces = {str(api.principal().expect(401, "UNAUTHENTICATED").error) for api in hostile}
    assert len(faces) == 1


def test_a_retry_with_a_fresh_token_is_the_same_persons(sign_in: SignIn, subject: str) -> None:
    fields = {"subject_id": subject, "content": "Once"}
    for exp in (300, 400):
        human = sign_in.by(exp=int(time.time()) + exp).sending(Idempotency_Key=f"once-{subject}")
        assert human.remember(**fields).expect(201).data["status"] == "stored"


@pytest.mark.parametrize("role", ["reader", "writer"])
def test_a_token_makes_no_keys_unless_it_is_an_admins(sign_in: SignIn, role: str, subject: str) -> None:
    named = {"principal": f"helper-{subject}", "kind": "human", "role": "reader"}
    soon = int(time.time() + 300) * 1000
    sign_in.by(role=role).create_key(**named, expires_at=soon).expect(403, "FORBIDDEN")
    sign_in.by(role="admin").create_key(**named, expires_at=soon).expect(201)


def test_a_key_made_with_a_token_does_not_outlive_it(sign_in: SignIn, subject: str) -> None:
    named = {"principal": f"helper-{subject}", "kind": "agent", "role": "reader"}
    admin = sign_in.by(role="admin")
    admin.create_key(**named).expect(403, "FORBIDDEN")
    admin.create_key(**named, expires_at=int(time.time() + 3600) * 1000).expect(403, "FORBIDDEN")


def test_nobody_can_take_another_kinds_name(sign_in: SignIn, subject: str) -> None:
    """A history says a name only: a token cannot say a key's, and a key cannot be named as a person's token."""
    named = {"principal": "Rina", "kind": "agent", "role": "writer"}
    agent = Api(sign_in.http, sign_in.admin.create_key(**named).expect(201).data["api_key"])
    memory = agent.stored(subject_id=subject, content="Likes tea")
    sign_in.by().request("POST", f"/memory/{memory['id']}/verify").expect(200)
    actors = [event["actor"] for event in sign_in.admin.events(memory["id"])]
    assert sorted(actors) == ["Rina", "jwt:Rina"]
    for alike in ("jwt:Rina", " jwt:Rina", "JWT:Rina", "\uff4a\uff57\uff54:Rina"):
        sign_in.admin.create_key(**{**named, "principal": alike}).refused("principal")
