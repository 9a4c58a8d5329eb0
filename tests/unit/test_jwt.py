"""Sign-in tokens: what is accepted, and that nothing else is, whatever a stranger sends."""

import asyncio
import base64
import hashlib
import hmac
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import jwt
import pytest

from tests.unit.service import HOUR_MS, Service, open_service
from titen_core.errors import ValidationError
from titen_core.jwt_auth import Claims, InvalidToken, JwtSecret, issue, looks_like_jwt, read_claims
from titen_core.models import PrincipalKind, Role, Tenant

SECRET = JwtSecret("a shared secret of thirty-two bytes or more")
NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000
DAY_S = 24 * 60 * 60
GOOD = {"sub": "Rina", "tenant": "t1", "iat": NOW_S, "exp": NOW_S + 3600}

T = TypeVar("T")


def signed(claims: object, secret: str = SECRET.value, **header: Any) -> str:
    """A token made by hand, so that it may say what no library would write."""
    head = json.dumps({"alg": "HS256", "typ": "JWT", **header}).encode()
    body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    digest = {"HS384": hashlib.sha384, "HS512": hashlib.sha512}.get(str(header.get("alg")), hashlib.sha256)
    signing = f"{encoded(head)}.{encoded(body)}"
    return f"{signing}.{encoded(hmac.new(secret.encode(), signing.encode(), digest).digest())}"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def read(claims: object, **header: Any) -> Claims:
    return read_claims(signed(claims, **header), SECRET, NOW_MS)


def without(name: str) -> dict[str, Any]:
    return {claim: value for claim, value in GOOD.items() if claim != name}


def test_a_token_says_who_and_where_and_until_when() -> None:
    assert read(GOOD) == Claims("t1", "Rina", Role.WRITER, None, NOW_MS + HOUR_MS)


def test_role_and_subject_may_be_named() -> None:
    found = read({**GOOD, "role": "reader", "subject": "user_1"})
    assert (found.role, found.subject_id) == (Role.READER, "user_1")


def test_what_is_issued_is_read_back() -> None:
    claims = Claims("t1", "Rïna 设备", Role.ADMIN, "user_1", NOW_MS + 24 * HOUR_MS)
    token = issue(claims, SECRET, NOW_MS)
    assert looks_like_jwt(token)
    assert read_claims(token, SECRET, NOW_MS) == claims


def test_another_library_of_the_standard_can_issue_them() -> None:
    token = jwt.encode({**GOOD, "jti": "7", "iss": "our-login"}, SECRET.value, algorithm="HS256")
    assert read_claims(token, SECRET, NOW_MS).name == "Rina"


@pytest.mark.parametrize("lifetime_ms", [0, -1, 24 * HOUR_MS + 1])
def test_no_token_is_issued_for_longer_than_a_day(lifetime_ms: int) -> None:
    with pytest.raises(ValidationError, match="24 hours"):
        issue(Claims("t1", "Rina", Role.WRITER, None, NOW_MS + lifetime_ms), SECRET, NOW_MS)


@pytest.mark.parametrize("claim", ["sub", "tenant", "exp"])
def test_a_missing_claim_is_refused(claim: str) -> None:
    with pytest.raises(InvalidToken):
        read(without(claim))


NO_NAMES: list[Any] = [7, True, None, "", " ", ["a"], {}, "a\u0000b", "\ud800", "x" * 257]
WRONG: dict[str, list[Any]] = {
    "sub": NO_NAMES,
    "tenant": NO_NAMES,
    "subject": NO_NAMES,
    "exp": ["soon", str(NOW_S + 60), None, True, [NOW_S + 60], {}, -1, 1e300, 10**30, 10**400],
    "iat": ["now", None, True, [], -1, 10**400],
    "nbf": ["now", None, True, [], -1, -(10**400)],
    "role": ["owner", "ADMIN", "", None, 7, ["admin"], {"admin": 1}],
    "aud": ["another-service", ["titen"]],
}
WRONG_KINDS = [{claim: value} for claim, values in WRONG.items() for value in values]


@pytest.mark.parametrize("change", WRONG_KINDS, ids=lambda change: repr(change)[:40])
def test_a_claim_of_a_wrong_kind_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        read({**GOOD, **change})


@pytest.mark.parametrize("payload", [b"[]", b'"Rina"', b"null", b"7", b"", b"{", b"\xff\xfe", b"[" * 2000, b"9" * 2500])
def test_a_payload_that_is_no_object_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidToken):
        read(payload)


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        ({"exp": NOW_S + 1}, True),
        ({"exp": NOW_S - 29}, True),  # the other clock may be behind
        ({"exp": NOW_S - 30}, False),
        ({"iat": NOW_S + 30}, True),
        ({"iat": NOW_S + 31}, False),
        ({"nbf": NOW_S + 30}, True),
        ({"nbf": NOW_S + 31}, False),
        ({"iat": NOW_S - 10, "exp": NOW_S - 10 + DAY_S}, True),
        ({"iat": NOW_S - 10, "exp": NOW_S - 9 + DAY_S}, False),
        ({"iat": 0, "exp": NOW_S + 60}, False),
        ({"exp": NOW_S + 60.5}, True),
    ],
)
def test_times_hold_within_a_bounded_skew(change: dict[str, Any], valid: bool) -> None:
    if valid:
        read({**GOOD, **change})
    else:
        with pytest.raises(InvalidToken):
            read({**GOOD, **change})


@pytest.mark.parametrize(
    ("exp", "valid"), [(NOW_S + DAY_S, True), (NOW_S + DAY_S + 30, True), (NOW_S + DAY_S + 31, False)]
)
def test_without_iat_the_lifetime_counts_from_now(exp: int, valid: bool) -> None:
    claims = {**without("iat"), "exp": exp}
    if valid:
        read(claims)
    else:
        with pytest.raises(InvalidToken):
            read(claims)


@pytest.mark.parametrize(
    "alg", ["none", "None", "NONE", "", "HS384", "HS512", "RS256", "ES256", "EdDSA", "hs256", None, 7, []]
)
def test_another_algorithm_is_refused_even_with_the_right_secret(alg: Any) -> None:
    with pytest.raises(InvalidToken):
        read(GOOD, alg=alg)


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"b64": False, "crit": ["b64"]}])
def test_an_extension_that_must_be_understood_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        read(GOOD, **header)


def hostile_tokens() -> list[str]:
    good = signed(GOOD)
    head, body, signature = good.split(".")
    none = encoded(b'{"alg":"none","typ":"JWT"}')
    other_body = encoded(json.dumps({**GOOD, "sub": "Eve"}).encode())
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    return [
        f"{head}.{body}.",
        f"{head}.{body}.{flipped}",
        f"{head}.{other_body}.{signature}",
        f"{none}.{body}.",
        f"{none}.{body}.{signature}",
        f"{head}..{signature}",
        f"{head}.{body}.!!!",
        f"eyJ.{body}.{signature}",
        f"{encoded(b'{}')}.{body}.{signature}",
        f"eyJ{'[' * 1500}.{body}.{signature}",
        signed(GOOD, secret="another secret that also has its 32 bytes"),
        signed(GOOD, secret=""),
        signed({**GOOD, "exp": NOW_S - 3600, "iat": NOW_S - 7200}),
        "eyJ..",
    ]


@pytest.mark.parametrize("token", hostile_tokens())
def test_a_hostile_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidToken):
        read_claims(token, SECRET, NOW_MS)


@pytest.mark.parametrize("short", ["", "x" * 31, "é" * 15])
def test_a_short_secret_is_no_secret(short: str) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        JwtSecret(short)


def test_a_secret_never_shows_itself() -> None:
    assert SECRET.value not in repr(SECRET)


def test_the_library_is_imported_only_for_a_token() -> None:
    program = "import sys, titen_core.http.app; sys.exit('jwt' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=False).returncode == 0


# Through the door


def over_http(path: Path, work: Callable[[Service, Tenant], Awaitable[T]], secret: JwtSecret | None = SECRET) -> T:
    async def run() -> T:
        async with open_service(path, jwt_secret=secret) as service:
            return await work(service, await service.tenant())

    return asyncio.run(run())


def claims_of(tenant: Tenant, **more: Any) -> dict[str, Any]:
    return {**GOOD, "tenant": tenant.id, **more}


def test_a_token_is_a_human_on_every_door(tmp_path: Path) -> None:
    async def work(service: Service, tenant: Tenant) -> None:
        token = signed(claims_of(tenant))
        me = (await service.call("GET", "/v1/principal", key=token)).data
        assert (me["principal"], me["kind"], me["role"], me["tenant_id"]) == ("jwt:Rina", "human", "writer", tenant.id)
        assert me["expires_at"] == NOW_MS + HOUR_MS
        agent = await service.key(tenant, role=Role.WRITER, kind=PrincipalKind.AGENT, name="bot")
        memory = (await service.call("POST", "/v1/memories", {"subject_id": "u", "content": "x"}, key=agent)).data
        verified = await service.call("POST", f"/memory/{memory['id']}/verify", key=token)
        assert (verified.status, verified.json["verified"]) == (200, True)
        shown = (await service.call("GET", f"/v1/memories/{memory['id']}", key=token)).data
        assert shown["verified_by"] == "jwt:Rina"
        assert (await service.call("GET", "/v1/keys", key=token)).code == "FORBIDDEN"
        admin = signed(claims_of(tenant, role="admin"))
        assert (await service.call("GET", "/v1/keys", key=admin)).status == 200

    over_http(tmp_path, work)


def test_a_token_may_be_locked_to_a_subject(tmp_path: Path) -> None:
    async def work(service: Service, tenant: Tenant) -> None:
        token = signed(claims_of(tenant, subject="user_1"))
        stored = await service.call("POST", "/v1/memories", {"content": "Mine"}, key=token)
        assert stored.data["subject_id"] == "user_1"
        refused = await service.call("POST", "/v1/memories", {"content": "x", "subject_id": "user_2"}, key=token)
        assert refused.code == "FORBIDDEN"

    over_http(tmp_path, work)


def test_a_repeated_request_is_known_by_its_person_whatever_the_token(tmp_path: Path) -> None:
    async def work(service: Service, tenant: Tenant) -> None:
        body, once = {"subject_id": "u", "content": "x"}, {"idempotency-key": "once"}
        for minute in (0, 1):
            token = signed(claims_of(tenant, exp=NOW_S + 3600 + 60 * minute))
            assert (await service.call("POST", "/v1/memories", body, key=token, headers=once)).data[
                "status"
            ] == "stored"
        other = signed(claims_of(tenant, sub="Budi"))
        answer = await service.call("POST", "/v1/memories", body, key=other, headers=once)
        assert answer.data["status"] == "unchanged"

    over_http(tmp_path, work)


def test_every_refusal_has_one_face(tmp_path: Path) -> None:
    async def work(service: Service, tenant: Tenant) -> None:
        hostile = [*hostile_tokens(), signed({**GOOD, "tenant": "unknown"}), signed(claims_of(tenant, role="owner"))]
        hostile += [
            signed(claims_of(tenant, pad="x" * 4096)),
            "",
            "titen_a_b",
            "eyJ",
            signed(claims_of(tenant), alg="none"),
        ]
        faces = set()
        for token in hostile:
            answer = await service.call("GET", "/v1/principal", key=token)
            assert answer.status == 401, token
            faces.add(json.dumps(answer.json["error"], sort_keys=True))
        assert len(faces) == 1
        assert (await service.call("GET", "/readyz", key=hostile[0])).status == 200

    over_http(tmp_path, work)


def test_without_a_secret_no_token_is_valid(tmp_path: Path) -> None:
    async def work(service: Service, tenant: Tenant) -> None:
        for token in (signed(claims_of(tenant)), signed(claims_of(tenant), secret="")):
            assert (await service.call("GET", "/v1/principal", key=token)).status == 401

    over_http(tmp_path, work, secret=None)
