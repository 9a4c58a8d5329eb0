"""A scripted conversation of every kind of request, told so that two homes can be compared line by line."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.contract.client import Answer, Api, JsonObject

__all__ = ["LEAST_REQUESTS", "Conversation", "said_and_settled"]

LEAST_REQUESTS: Final = 60
SUBJECT: Final = "é" * 40
NOBODY: Final = "00000000-0000-7000-8000-000000000000"

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BLANKED: Final = (
    (re.compile(r'("(?:created|updated|verified|deleted|expires|revoked)_at":)\d+'), r"\1TIME"),
    (re.compile(r'("took_ms":)\d+'), r"\1MS"),
    (re.compile(r'("(?:next_cursor|next)":)"[^"]*"'), r'\1"CURSOR"'),
    (re.compile(r'("(?:vector_rank|text_rank|overlay_rank|rrf_score|similarity)":)[^,}]+'), r"\1PART"),
    (re.compile(r'("overlay":)"[a-z]+"'), r'\1"STATE"'),
    (re.compile(r'("(?:api_key|sha256)":)"[^"]*"'), r'\1"TOKEN"'),
    (re.compile(r'("(?:id|key_id)":)"[a-z2-7]{16}"'), r'\1"KEY"'),
    (re.compile(r"(/v1/keys/)[a-z2-7]{16}"), r"\1KEY"),
)
_NOT_YET_INDEXED: Final = (
    (re.compile(r'("semantic_ready":)(?:true|false)'), r"\1SOON"),
    (re.compile(r'("index_status":)"[a-z]+"'), r'\1"SOON"'),
    (re.compile(r'("(?:completed|postponed|pending)":)\d+'), r"\1N"),
)


@dataclass
class Conversation:
    """One line for each answer: what was asked, the status, and the body with what differs by nature blanked."""

    api: Api
    settled: bool = False
    lines: list[str] = field(default_factory=list)
    _ids: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, **how: Any) -> Answer:
        return self.ask_as(self.api, method, path, **how)

    def ask_as(self, api: Api, method: str, path: str, **how: Any) -> Answer:
        answer = api.request(method, path, **how)
        kind = answer.headers.get("content-type", "")
        line = f"{method} {path} {answer.status} {kind} {answer.content.decode()}"
        for pattern, blank in (*_BLANKED, *(() if self.settled else _NOT_YET_INDEXED)):
            line = pattern.sub(blank, line)
        self.lines.append(_UUID.sub(self._named, line))
        return answer

    def remember(self, content: str, **fields: Any) -> str:
        body = {"subject_id": SUBJECT, "content": content, **fields}
        memory_id: str = self.ask("POST", "/v1/memories", json=body).data["id"]
        return memory_id

    def search(self, query: str, **fields: Any) -> None:
        self.ask("POST", "/v1/memories/search", json={"query": query, **fields})

    def _named(self, found: re.Match[str]) -> str:
        """Ids count in the order in which they first appear."""
        return self._ids.setdefault(found[0], f"<{len(self._ids)}>")


def said_and_settled(api: Api, drain: Callable[[], None]) -> Conversation:
    """The whole conversation: writes and refusals, then, after `drain`, everything that reads."""
    talk = Conversation(api)
    ids = _writes(talk)
    _refusals(talk, ids["vim"])
    drain()
    talk.settled = True
    _reads(talk, ids)
    _keys(talk)
    return talk


def _writes(talk: Conversation) -> Mapping[str, str]:
    everything: JsonObject = {
        "agent_id": "bot",
        "run_id": "run:1",
        "kind": "procedural",
        "category": "preference",
        "key": "editor",
        "tags": ["Tools", "a_b%"],
        "priority": "critical",
        "confidence": 0.5,
        "source": {"type": "chat", "ref": "turn#1"},
        "metadata": {"n": 1.0, "i": 2**53 - 1, "deep": {"é": [None, True, "x"]}},
        "expires_at": 4_102_444_800_000,
    }
    ids = {
        "vim": talk.remember("Uses vim — 設備 🙂\nand tabs", **everything),
        "train": talk.remember("Kereta malam ke Surabaya"),
        "coffee": talk.remember("Likes espresso in the morning", tags=["drink"]),
        "ticket": talk.remember("Rilis nomor POL-358 di server", category="project"),
        "gone": talk.remember("Buku di sekolah"),
    }
    talk.remember("Kereta malam ke Surabaya")
    talk.remember("Likes espresso in the morning", tags=["drink", "taste"])
    headers = {"Idempotency-Key": "once"}
    for content in ("Sekali saja", "Sekali saja", "Lain isi"):
        talk.ask("POST", "/v1/memories", json={"subject_id": "s", "content": content}, headers=headers)
    vim, gone = f"/v1/memories/{ids['vim']}", f"/v1/memories/{ids['gone']}"
    talk.ask("PATCH", vim, json={"content": "Uses emacs", "expected_version": 1})
    talk.ask("PATCH", vim, json={"tags": ["tools"], "metadata": {}}, headers={"If-Match": '"2"'})
    talk.ask("PATCH", vim, json={"priority": "low", "expected_version": 1})
    talk.ask("POST", f"{vim}/verify", json={})
    talk.ask("DELETE", gone)
    talk.ask("DELETE", gone)
    talk.ask("GET", gone)
    talk.ask("POST", f"{gone}/restore")
    talk.ask("POST", f"{gone}/restore")
    talk.ask("DELETE", gone)
    for number in range(4):
        talk.remember(f"Langkah {number} pekerjaan", kind="episodic", source={"ref": f"turn-{number}"})
    return ids


def _refusals(talk: Conversation, memory_id: str) -> None:
    as_json = {"Content-Type": "application/json"}
    wrong: tuple[JsonObject, ...] = (
        {"content": "no subject"},
        {"subject_id": "", "content": "x"},
        {"subject_id": "s", "content": " "},
        {"subject_id": "s", "content": "x" * 9_000},
        {"subject_id": "s", "content": "x", "kind": "nonsense"},
        {"subject_id": "s", "content": "x", "confidence": 2},
        {"subject_id": "s", "content": "x", "tags": ["t"] * 17},
        {"subject_id": "s", "content": "x", "unknown": 1},
        {"subject_id": "s", "content": "x", "key": "k"},
        {"subject_id": "s", "content": "x", "expires_at": 1},
    )
    for body in wrong:
        talk.ask("POST", "/v1/memories", json=body)
    bodies = (b"{", b"[]", b"\xff", b'{"a": NaN}', b'{"subject_id": "s", "content": "half \\ud800"}', b"x" * 300_000)
    for content in bodies:
        talk.ask("POST", "/v1/memories", content=content, headers=as_json)
    talk.ask("POST", "/v1/memories", content=b"{}", headers={"Content-Type": "text/plain"})
    talk.search("")
    talk.search("x", limit=21)
    talk.search("x", filters={"author": ["nobody"]})
    for method, path in (
        ("PUT", "/v1/memories"),
        ("GET", "/v1/nothing"),
        ("GET", f"/v1/memories/{NOBODY}"),
        ("PATCH", f"/v1/memories/{NOBODY}"),
        ("GET", "/v1/memories?limit=0"),
        ("GET", "/v1/memories?cursor=x"),
        ("GET", "/v1/memories?unknown=1"),
        ("GET", "/v1/export?after=x"),
    ):
        talk.ask(method, path)
    anyone = Api(talk.api.http, None)
    talk.ask_as(anyone, "GET", f"/v1/memories/{memory_id}")
    talk.ask_as(Api(talk.api.http, "titen_a_b"), "GET", "/v1/principal")
    talk.ask_as(anyone, "OPTIONS", "/v1/memories")


def _reads(talk: Conversation, ids: Mapping[str, str]) -> None:
    for memory_id in ids.values():
        talk.ask("GET", f"/v1/memories/{memory_id}")
    talk.ask("GET", f"/v1/memories/{ids['vim']}/history")
    talk.ask("GET", f"/v1/memories/{ids['gone']}/history?limit=2")
    for query in ("subject_id=s", "limit=3", "kind=episodic", "tags=tools", "priority=critical", "verified=true"):
        talk.ask("GET", f"/v1/memories?{query}")
    talk.ask("GET", "/v1/memories/tags")
    talk.ask("GET", "/v1/memories/expiring?within=366d")
    searches: tuple[tuple[str, JsonObject], ...] = (
        ("railway at night", {"limit": 1}),
        ("coffee", {}),
        ("POL-358", {"subject_id": SUBJECT}),
        ("emacs", {"filters": {"verified": True}}),
        ("work", {"limit": 20, "filters": {"kind": ["episodic"]}}),
        ("a book for school", {"limit": 1, "filters": {"category": ["project"]}}),
        ("zeppelin", {"subject_id": "nobody"}),
        ("espresso", {"filters": {"tags": ["drink", "taste"], "tags_match": "all", "min_confidence": 0.1}}),
    )
    for query, fields in searches:
        talk.search(query, **fields)
    talk.ask("GET", "/v1/export")
    talk.ask("GET", "/v1/export?deleted=true&limit=2")
    talk.ask("POST", "/v1/repair")
    for path in ("/", "/healthz", "/openapi.json", "/v1/principal"):
        talk.ask("GET", path)
    talk.ask_as(Api(talk.api.http, None), "GET", "/readyz")
    talk.ask("HEAD", "/healthz")


def _keys(talk: Conversation) -> None:
    made = talk.ask("POST", "/v1/keys", json={"principal": "bot", "kind": "agent", "role": "reader"})
    reader = Api(talk.api.http, made.data["api_key"])
    talk.ask_as(reader, "GET", "/v1/principal")
    talk.ask_as(reader, "POST", "/v1/memories", json={"subject_id": "s", "content": "x"})
    talk.ask_as(reader, "POST", "/v1/repair")
    talk.ask("DELETE", f"/v1/keys/{made.data['id']}")
    talk.ask_as(reader, "GET", "/v1/principal")
