"""The Worker's warnings: what triggers them, how often, and that they hold no content."""

from collections.abc import Mapping
from typing import Any

import pytest

from adapters.cloudflare.watch import Watch
from titen_core.limits import OVERLAY_ROWS, OVERLAY_WINDOW_MS


class Told:
    """A watch with a clock of its own, and what it logged."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.lines: list[Mapping[str, Any]] = []
        self.watch = Watch(self.lines.append, lambda: self.now_ms)

    def request(self, operation: str = "remember_memory", tenant: str | None = "a1b2", **more: Any) -> None:
        line = {"operation": operation, "tenant": tenant, "status": 201, "counts": {}, **more}
        self.watch.line({"event": "request", **line})

    @property
    def warnings(self) -> list[Mapping[str, Any]]:
        return [line for line in self.lines if line["event"] == "warning"]


@pytest.fixture
def told() -> Told:
    return Told()


def test_every_line_is_passed_on(told: Told) -> None:
    told.watch.line({"event": "housekeeping_failed", "where": "cron"})
    told.request()
    assert [line["event"] for line in told.lines] == ["housekeeping_failed", "request"]


def test_a_tenant_that_writes_more_than_the_overlay_holds_is_named_once(told: Told) -> None:
    for _ in range(OVERLAY_ROWS):
        told.request()
    assert told.warnings == []
    for _ in range(3):
        told.request()
    [warning] = told.warnings
    assert warning == {
        "event": "warning",
        "code": "TENANT_WRITES",
        "tenant": "a1b2",
        "more_than": OVERLAY_ROWS,
        "within_ms": OVERLAY_WINDOW_MS,
    }


def test_it_is_named_again_when_it_goes_on(told: Told) -> None:
    for _ in range(2):
        for _ in range(OVERLAY_ROWS + 1):
            told.request()
        told.now_ms += OVERLAY_WINDOW_MS
    assert len(told.warnings) == 2


def test_slow_writes_refused_ones_reads_and_other_tenants_do_not_add_up(told: Told) -> None:
    for number in range(3 * OVERLAY_ROWS):
        told.request(status=409)
        told.request("search_memories", status=200)
        told.request(tenant=f"t{number % 3}")
        told.request(tenant=None)
        told.request(tenant="slow")
        told.now_ms += OVERLAY_WINDOW_MS // OVERLAY_ROWS + 1
    assert told.warnings == []


def test_a_full_overlay_is_said_whoever_wrote(told: Told) -> None:
    told.request("search_memories", status=200, counts={"fresh": OVERLAY_ROWS - 1})
    assert told.warnings == []
    told.request("search_memories", status=200, counts={"fresh": OVERLAY_ROWS})
    assert [warning["code"] for warning in told.warnings] == ["OVERLAY_FULL"]


@pytest.mark.parametrize(
    ("size_bytes", "plan"),
    [(None, None), (399_999_999, None), (400_000_000, "Free"), (7_999_999_999, None), (8_000_000_000, "Paid")],
)
def test_a_database_near_its_largest_size_is_said(told: Told, size_bytes: int | None, plan: str | None) -> None:
    told.watch.database(size_bytes)
    told.watch.database(size_bytes)
    assert [(warning["code"], warning["plan"]) for warning in told.warnings] == ([("D1_SIZE", plan)] if plan else [])


@pytest.mark.parametrize("name", ["vectorCount", "vectorsCount"])
def test_an_index_near_its_most_vectors_is_said(told: Told, name: str) -> None:
    told.watch.index({name: 7_999_999})
    told.watch.index({"dimensions": 1024})
    assert told.warnings == []
    told.watch.index({name: 8_000_000})
    assert told.warnings[0]["code"] == "VECTORIZE_VECTORS"


def test_namespaces_near_the_limit_of_a_plan_are_said(told: Told) -> None:
    for count in (799, 1_001, 39_999):
        told.watch.tenants(count)
    assert told.warnings == []
    told.watch.tenants(800)
    told.now_ms += OVERLAY_WINDOW_MS
    told.watch.tenants(40_000)
    assert [(each["code"], each["plan"], each["limit"]) for each in told.warnings] == [
        ("VECTORIZE_NAMESPACES", "Free", 1_000),
        ("VECTORIZE_NAMESPACES", "Paid", 50_000),
    ]
