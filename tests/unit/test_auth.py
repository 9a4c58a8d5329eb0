"""API keys: what a header must hold to be somebody."""

import asyncio
import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.service import Service, open_service
from titen_core.auth import authenticate, new_secret
from titen_core.errors import Unauthenticated
from titen_core.models import PrincipalKind, Role


def test_a_secret_is_32_random_bytes_behind_a_public_id() -> None:
    made = new_secret()
    prefix, key_id, secret = made.api_key.split("_", 2)
    assert (prefix, key_id) == ("titen", made.key_id)
    assert "_" not in key_id
    assert len(base64.urlsafe_b64decode(secret + "=")) == 32
    assert made.secret_hash == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in repr((made.key_id, made.secret_hash))


def test_no_two_secrets_are_equal() -> None:
    made = [new_secret() for _ in range(500)]
    assert len({secret.key_id for secret in made}) == len({secret.secret_hash for secret in made}) == 500


@pytest.mark.parametrize("spelled", ["Bearer {key}", "bearer {key}", "BEARER  {key} ", "  Bearer {key}"])
def test_a_key_is_its_principal(tmp_path: Path, spelled: str) -> None:
    async def case() -> None:
        async with open_service(tmp_path) as service:
            tenant = await service.tenant()
            key = await service.key(tenant, role=Role.WRITER, kind=PrincipalKind.AGENT, name="bot", subject_id="user_1")
            found = await authenticate(spelled.format(key=key), service.kernel.store.keys, service.clock)
            assert (found.tenant_id, found.tenant_num) == (tenant.id, tenant.num)
            assert (found.name, found.kind, found.role, found.subject_id) == ("bot", "agent", "writer", "user_1")
            assert found.key_id == key.split("_")[1]

    asyncio.run(case())


MANGLED: dict[str, Callable[[str], str | None]] = {
    "nothing": lambda key: None,
    "empty": lambda key: "",
    "no scheme": lambda key: key,
    "another scheme": lambda key: f"Basic {key}",
    "scheme only": lambda key: "Bearer",
    "another prefix": lambda key: f"Bearer x{key}",
    "no secret": lambda key: f"Bearer {key.rsplit('_', 1)[0][: len('titen_') + 16]}",
    "empty secret": lambda key: f"Bearer titen_{key.split('_')[1]}_",
    "empty id": lambda key: f"Bearer titen__{key.split('_', 2)[2]}",
    "wrong secret": lambda key: f"Bearer {key[:-1]}{'A' if key[-1] != 'A' else 'B'}",
    "shorter secret": lambda key: f"Bearer {key[:-1]}",
    "longer secret": lambda key: f"Bearer {key}A",
    "unknown id": lambda key: f"Bearer titen_{'a' * 16}_{key.split('_', 2)[2]}",
    "upper case id": lambda key: f"Bearer titen_{key.split('_')[1].upper()}_{key.split('_', 2)[2]}",
    "not ASCII": lambda key: f"Bearer {key}é",
    "a wildcard": lambda key: f"Bearer titen_%_{key.split('_', 2)[2]}",
    "two keys": lambda key: f"Bearer {key}, Bearer {key}",
}


async def _refusal(service: Service, header: str | None) -> str:
    with pytest.raises(Unauthenticated) as refused:
        await authenticate(header, service.kernel.store.keys, service.clock)
    return refused.value.message


@pytest.mark.parametrize("mangle", MANGLED.values(), ids=MANGLED)
def test_anything_else_is_nobody(tmp_path: Path, mangle: Callable[[str], str | None]) -> None:
    async def case() -> None:
        async with open_service(tmp_path) as service:
            key = await service.key(await service.tenant())
            await authenticate(f"Bearer {key}", service.kernel.store.keys, service.clock)
            assert await _refusal(service, mangle(key)) == await _refusal(service, None)

    asyncio.run(case())


def test_an_expired_and_a_revoked_key_are_nobody_in_the_same_words(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_service(tmp_path) as service:
            tenant, clock, keys = await service.tenant(), service.clock, service.kernel.store.keys
            short = f"Bearer {await service.key(tenant, expires_at_ms=clock() + 10)}"
            clock.forward(9)
            assert (await authenticate(short, keys, clock)).expires_at_ms == clock() + 1
            clock.forward(1)
            refused = await _refusal(service, short)
            doomed = await service.key(tenant)
            assert (await service.call("DELETE", f"/v1/keys/{doomed.split('_')[1]}", key=doomed)).status == 200
            assert refused == await _refusal(service, f"Bearer {doomed}") == await _refusal(service, None)

    asyncio.run(case())


def test_no_secret_is_stored(tmp_path: Path) -> None:
    async def case() -> str:
        async with open_service(tmp_path) as service:
            return await service.key(await service.tenant())

    _, key_id, secret = asyncio.run(case()).split("_", 2)
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert key_id.encode() in stored
    assert hashlib.sha256(secret.encode()).hexdigest().encode() in stored
    assert secret.encode() not in stored
