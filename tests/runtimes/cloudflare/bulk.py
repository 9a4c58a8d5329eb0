"""Many memories at once: made up as export records, sent by import, drained by repair."""

import json
from typing import Any, Final

import httpx

from titen_core.ids import new_id, system_clock

__all__ = ["outbox", "records", "repair", "send"]

DAY_MS: Final = 24 * 60 * 60 * 1000


def records(count: int, content: str) -> list[dict[str, Any]]:
    """Export records of made-up memories."""
    made_ms = system_clock() - DAY_MS
    common = {
        "format": "titen-memory",
        "format_version": 1,
        "subject_id": "s",
        "kind": "semantic",
        "priority": "normal",
        "author": "agent",
        "verified": False,
        "confidence": 0.7,
        "created_at": made_ms,
        "updated_at": made_ms,
        "version": 1,
    }
    return [{**common, "id": new_id(made_ms), "content": f"{content} {number}"} for number in range(count)]


def send(api: httpx.Client, rows: list[dict[str, Any]], from_line: int = 1) -> dict[str, Any]:
    body = "".join(json.dumps(row) + "\n" for row in rows)
    answer = api.post(
        f"/v1/import?from_line={from_line}", content=body, headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.status_code == 200, answer.text
    report: dict[str, Any] = answer.json()["data"]
    assert report["failed"] == 0, report["errors"]
    return report


def repair(api: httpx.Client) -> int:
    """Drains DRAIN_ITEMS; answers how many of the tenant's are left."""
    answer = api.post("/v1/repair")
    assert answer.status_code == 200, answer.text
    return int(answer.json()["data"]["pending"])


def outbox(api: httpx.Client) -> Any:
    """What an admin sees of it."""
    checks = api.get("/readyz").json()["data"]["checks"]
    return next(check["detail"] for check in checks if check["name"] == "outbox")
