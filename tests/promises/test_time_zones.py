"""The host's time zone never changes an answer."""

import json
import re
from pathlib import Path
from typing import Any

from tests.promises.service import Service, until
from tests.runtimes.embedding_server import EmbeddingServer

NOON = 1_893_499_200_000  # 2030-01-01T12:00:00Z
SAME_INSTANT = ("2030-01-01T12:00:00Z", "2030-01-01T19:00:00+07:00", "2030-01-01T04:00:00-08:00", NOON)
ZONES = ("Asia/Jakarta", "America/Los_Angeles", "UTC")
PAST = 1_600_000_000_000


def conversation(service: Service) -> list[Any]:
    """A scripted conversation with everything that has to do with time; the answers."""
    api = service.api
    said: list[Any] = []

    def ask(method: str, path: str, body: Any = None, **query: Any) -> Any:
        answer = api.call(method, path, body, **query)
        lines = [json.loads(line) for line in answer.content.splitlines()]
        said.append([method, path, query, answer.status, lines])
        return lines[0]

    for number, expiry in enumerate(SAME_INSTANT):
        ask("POST", "/v1/memories", {"subject_id": "s", "content": f"Rapat {number} di pasar", "expires_at": expiry})
    ask("POST", "/v1/memories", {"subject_id": "s", "content": "Sudah lewat pasar", "expires_at": PAST})
    ask("POST", "/v1/memories", {"subject_id": "s", "content": "Tanpa zona", "expires_at": "2030-01-01T12:00:00"})
    first = ask("GET", "/v1/memories", subject_id="s")["data"][0]
    ask("PATCH", f"/v1/memories/{first['id']}", {"expires_at": "2031-06-30T23:59:59.999+05:30"})
    for name in ("created_after", "created_before", "updated_after", "updated_before"):
        for moment in (*SAME_INSTANT, "2020-02-29T23:30:00-01:00", "2020-03-01"):
            ask("GET", "/v1/memories", subject_id="s", **{name: str(moment)})
            ask("POST", "/v1/memories/search", {"query": "pasar", "subject_id": "s", "filters": {name: moment}})
    for query in ({}, {"include_expired": "true"}):
        ask("GET", "/v1/memories", subject_id="s", **query)
    ask("GET", "/v1/memories/expiring", within="8784h")
    ask("GET", "/v1/memories/expiring", within="366d")
    ask("GET", f"/v1/memories/{first['id']}/history")
    ask("GET", "/v1/export")
    return said


def times_of(said: list[Any]) -> set[int]:
    """The moments of the run itself, which are no part of the comparison."""
    found: set[int] = set()

    def look(value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                if name in {"created_at", "updated_at", "verified_at", "deleted_at"} and isinstance(inner, int):
                    found.add(inner)
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    look(said)
    return found


def comparable(said: list[Any]) -> str:
    """Without ids, cursors, hashes, durations and the moments of this run."""
    text = json.dumps(said, indent=1)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", text)
    for moment in sorted(times_of(said)):
        text = text.replace(str(moment), "NOW")
    return re.sub(r'"(took_ms|sha256|next_cursor|next)": ?("[^"]*"|[0-9.]+)', r'"\1": "-"', text)


def test_three_time_zones_give_the_same_answers(tmp_path: Path) -> None:
    told: dict[str, str] = {}
    for zone in ZONES:
        folder = tmp_path / zone.replace("/", "-")
        folder.mkdir()
        with EmbeddingServer() as embedder, Service(folder, embedder, {"TZ": zone}) as service:
            service.start()
            told[zone] = comparable(conversation(service))
    assert told[ZONES[0]].splitlines() == told[ZONES[2]].splitlines()
    assert told[ZONES[1]].splitlines() == told[ZONES[2]].splitlines()
    assert told[ZONES[0]].count(str(NOON)) >= len(SAME_INSTANT)


def test_a_store_moves_between_time_zones(tmp_path: Path) -> None:
    """What expires soon expires at the same instant, wherever the service is started again."""
    with Service(tmp_path, settings={"TZ": ZONES[0]}) as service:
        service.start()
        made = service.api.stored(subject_id="s", content="Sebentar saja")
        soon = made["created_at"] + 4000
        service.api.patch(made["id"], expires_at=soon).expect(200)
        later = service.api.stored(subject_id="s", content="Masih lama", expires_at="2030-01-01T19:00:00+07:00")
        service.restart(TZ=ZONES[1])
        until(lambda: [item["id"] for item in service.api.listed()] == [later["id"]], "the short one expired")
        listed = service.api.listed(include_expired="true")
        assert {item["id"]: item["expires_at"] for item in listed} == {made["id"]: soon, later["id"]: NOON}
        assert service.api.get(made["id"]).data["expires_at"] == soon
