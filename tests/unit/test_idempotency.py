"""Idempotency keys: a repeat answers what the first did, never its content."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.service import Reply, Service, counted, open_service
from titen_core import limits
from titen_core.models import Role
from titen_core.protocols import Statement

TEA = {"subject_id": "user_1", "content": "Likes tea"}
Case = Callable[[Service, str], Awaitable[None]]


def run(directory: Path, case: Case) -> None:
    async def whole() -> None:
        async with open_service(directory) as service:
            await case(service, await service.key(await service.tenant()))

    asyncio.run(whole())


async def post(service: Service, key: str, body: Any, token: str = "once", path: str = "/v1/memories") -> Reply:
    return await service.call("POST", path, body, key=key, headers={"idempotency-key": token})


def without_request_id(reply: Reply) -> Any:
    return {**reply.json, "meta": None}


def test_a_repeat_answers_the_same_and_writes_nothing(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        first = await post(service, key, TEA)
        service.clock.forward(60_000)
        again = await post(service, key, TEA)
        assert (first.status, again.status) == (201, 201)
        assert without_request_id(first) == without_request_id(again)
        assert first.headers["etag"] == again.headers["etag"]
        assert await counted(service.driver, "memory_events") == 1

    run(tmp_path, case)


def test_the_same_request_may_be_spelled_otherwise(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        await post(service, key, TEA)
        spelled = b'{ "content":"Likes\\u0020tea",\n "subject_id": "user_1"}'
        assert (await post(service, key, spelled)).status == 201
        assert (await post(service, key, TEA, path="/v1/memories/")).status == 201

    run(tmp_path, case)


@pytest.mark.parametrize(
    "other",
    [{**TEA, "content": "Likes  tea"}, {**TEA, "tags": []}, {**TEA, "agent_id": None}, {**TEA, "metadata": {"a": 1}}],
)
def test_another_body_is_a_conflict(tmp_path: Path, other: dict[str, Any]) -> None:
    async def case(service: Service, key: str) -> None:
        await post(service, key, TEA)
        refused = await post(service, key, other)
        assert (refused.status, refused.code) == (409, "IDEMPOTENCY_CONFLICT")
        assert await counted(service.driver, "memory_events") == 1

    run(tmp_path, case)


def test_true_and_1_are_different_requests(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        await post(service, key, {**TEA, "metadata": {"a": 1}})
        assert (await post(service, key, {**TEA, "metadata": {"a": True}})).status == 409

    run(tmp_path, case)


def test_another_route_under_the_same_key_is_a_conflict(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        memory_id = (await post(service, key, TEA)).data["id"]
        assert (await post(service, key, {}, path=f"/v1/memories/{memory_id}/verify")).status == 409

    run(tmp_path, case)


def test_a_key_belongs_to_one_api_key(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        tenant = await service.tenant("other")
        stranger = await service.key(tenant, name="Eve")
        colleague = await service.key(tenant, name="Eve", role=Role.WRITER)
        first = [await post(service, who, TEA) for who in (key, stranger)]
        assert [one.status for one in first] == [201, 201]
        assert first[0].data["id"] != first[1].data["id"]
        assert (await post(service, colleague, {**TEA, "content": "Likes coffee"})).status == 201

    run(tmp_path, case)


def test_equal_requests_at_once_act_once(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        replies = await asyncio.gather(*(post(service, key, TEA) for _ in range(20)))
        assert {reply.status for reply in replies} == {201}
        assert len({str(without_request_id(reply)) for reply in replies}) == 1
        assert await counted(service.driver, "memory_events") == 1
        assert await counted(service.driver, "idempotency") == 1

    run(tmp_path, case)


def test_unequal_requests_at_once_make_one_memory(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        bodies = [{**TEA, "content": f"Likes tea number {n}"} for n in range(10)]
        replies = await asyncio.gather(*(post(service, key, body) for body in bodies))
        assert sorted(reply.status for reply in replies) == [201, *[409] * 9]
        assert await counted(service.driver, "memories") == 1
        assert await counted(service.driver, "memory_text") == 1

    run(tmp_path, case)


def test_after_a_change_a_repeat_tells_the_old_version_of_the_present_record(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        memory_id = (await post(service, key, TEA)).data["id"]
        await service.call("PATCH", f"/v1/memories/{memory_id}", {"content": "Likes coffee"}, key=key)
        again = (await post(service, key, TEA)).data
        assert (again["id"], again["version"], again["status"]) == (memory_id, 1, "stored")
        assert again["content"] == "Likes coffee"

    run(tmp_path, case)


def test_after_a_delete_a_repeat_shows_no_content_and_restores_nothing(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        body = {**TEA, "tags": ["secret"], "metadata": {"secret": 1}, "source": {"type": "secret"}}
        memory_id = (await post(service, key, body)).data["id"]
        await service.call("DELETE", f"/v1/memories/{memory_id}", key=key)
        again = await post(service, key, body)
        assert (again.status, again.data["id"], again.data["content"]) == (201, memory_id, None)
        assert "secret" not in again.text
        assert "tea" not in again.text
        assert (await service.call("GET", f"/v1/memories/{memory_id}", key=key)).status == 404

    run(tmp_path, case)


def test_each_outcome_is_kept(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        memory_id = (await post(service, key, TEA, "t1")).data["id"]
        steps: list[tuple[str, str, Any, str]] = [
            ("t2", "/v1/memories", TEA, "unchanged"),
            ("t3", "/v1/memories", {**TEA, "tags": ["x"]}, "updated"),
            ("t4", f"/v1/memories/{memory_id}/verify", None, "unchanged"),
            ("t5", f"/v1/memories/{memory_id}/restore", {}, "unchanged"),
        ]
        for token, path, body, status in steps:
            for _ in range(2):
                assert (await post(service, key, body, token, path)).data["status"] == status, token
        await service.call("DELETE", f"/v1/memories/{memory_id}", key=key)
        for _ in range(2):
            assert (await post(service, key, None, "t6", f"/v1/memories/{memory_id}/restore")).data[
                "status"
            ] == "restored"
        assert await counted(service.driver, "memory_events") == 4

    run(tmp_path, case)


def test_a_key_is_kept_for_24_hours_and_forgotten_then(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        await post(service, key, TEA)
        service.clock.forward(limits.IDEMPOTENCY_KEPT_MS - 1)
        assert (await post(service, key, {**TEA, "tags": ["x"]})).status == 409
        service.clock.forward(1)
        assert (await post(service, key, {**TEA, "tags": ["x"]})).data["status"] == "updated"
        assert (await post(service, key, TEA)).status == 409

    run(tmp_path, case)


def test_old_keys_are_swept_in_bounded_steps(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        for n in range(3):
            await post(service, key, TEA, f"t{n}")
        expire, clock = service.kernel.store.idempotency.expire, service.clock
        clock.forward(limits.IDEMPOTENCY_KEPT_MS - 1)
        assert await expire(clock(), 2) == 0
        clock.forward(1)
        assert [await expire(clock(), 2) for _ in range(3)] == [2, 1, 0]
        assert await counted(service.driver, "idempotency") == 0

    run(tmp_path, case)


@pytest.mark.parametrize(("size_bytes", "status"), [(1, 201), (255, 201), (256, 400), (0, 400)])
def test_a_key_has_bounds(tmp_path: Path, size_bytes: int, status: int) -> None:
    async def case(service: Service, key: str) -> None:
        assert (await post(service, key, TEA, "k" * size_bytes)).status == status

    run(tmp_path, case)


def test_a_request_that_failed_uses_up_no_key(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        assert (await post(service, key, None, path="/v1/memories/unknown/restore")).status == 404
        assert (await post(service, key, {**TEA, "content": " "})).status == 400
        assert (await post(service, key, TEA)).status == 201

    run(tmp_path, case)


def test_nothing_of_a_request_is_kept(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        await post(service, key, TEA, "a-secret-token")
        rows = repr(await service.driver.query(Statement("SELECT * FROM idempotency")))
        assert "tea" not in rows
        assert "a-secret-token" not in rows
        assert "user_1" not in rows

    run(tmp_path, case)
