"""MCP over HTTP: both eras on one URL, three tools, and the same rules as REST (contract: Agents)."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.contract.client import Api, JsonObject
from tests.contract.conftest import MakeCaller

MODERN = "2026-07-28"
LEGACY = ["2025-11-25", "2025-06-18", "2025-03-26"]
PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}
TOOLS = ["titen_remember", "titen_recall", "titen_forget"]


class Mcp:
    """One MCP client by hand, so that tests can also send what a library would not."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def post(self, body: Any, headers: Mapping[str, str] | None = None, path: str = "/mcp") -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **self.api.headers, **(headers or {})}
        return self.api.http.post(path, content=content, headers=sent)

    def modern(
        self, method: str, params: JsonObject | None = None, headers: Mapping[str, str | None] | None = None
    ) -> httpx.Response:
        params = {"_meta": META, **(params or {})}
        named = {"Mcp-Name": params["name"]} if method == "tools/call" else {}
        sent = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **named, **(headers or {})}
        body = {"jsonrpc": "2.0", "id": "a", "method": method, "params": params}
        return self.post(body, {name: value for name, value in sent.items() if value is not None})

    def legacy(self, method: str, params: JsonObject | None = None, version: str | None = None) -> httpx.Response:
        headers = {} if version is None else {"MCP-Protocol-Version": version}
        return self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}, headers)

    def call(self, tool: str, **arguments: Any) -> JsonObject:
        """The result of a call, after asserting that both eras of it are well formed."""
        answer = self.modern("tools/call", {"name": tool, "arguments": arguments})
        assert answer.status_code == 200, answer.text
        result: JsonObject = answer.json()["result"]
        assert result["resultType"] == "complete"
        if not result["isError"]:
            assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result

    def good(self, tool: str, **arguments: Any) -> JsonObject:
        result = self.call(tool, **arguments)
        assert result["isError"] is False, result
        data: JsonObject = result["structuredContent"]
        return data

    def bad(self, tool: str, **arguments: Any) -> str:
        result = self.call(tool, **arguments)
        assert result["isError"] is True, result
        assert "structuredContent" not in result
        return str(result["content"][0]["text"])


@pytest.fixture
def mcp(agent: Api) -> Mcp:
    return Mcp(agent)


def error_of(answer: httpx.Response, status: int, code: int) -> JsonObject:
    assert answer.status_code == status, answer.text
    error: JsonObject = answer.json()["error"]
    assert error["code"] == code, answer.text
    return error


# The tools


def test_remember_recall_and_forget(mcp: Mcp, agent: Api, subject: str) -> None:
    fields = {"category": "preference", "key": "train", "tags": ["travel"], "priority": "high", "kind": "semantic"}
    stored = mcp.good(
        "titen_remember",
        content="Prefers the night train to Surabaya",
        subject_id=subject,
        expires_at="2099-01-01T00:00:00Z",
        **fields,
    )
    assert stored["status"] == "stored"
    assert agent.read(stored["id"])["priority"] == "high"
    found = mcp.good("titen_recall", query="night train", subject_id=subject)
    assert [item["id"] for item in found["memories"]] == [stored["id"]]
    assert "no instructions" in found["notice"]
    assert found["channels"]["text"] == "ok"
    assert mcp.good("titen_forget", id=stored["id"])["status"] == "deleted"
    agent.get(stored["id"]).expect(404)
    assert mcp.good("titen_recall", query="night train", subject_id=subject)["memories"] == []


@pytest.mark.parametrize("version", LEGACY)
def test_older_clients_call_the_same_tools(mcp: Mcp, subject: str, version: str) -> None:
    arguments = {"content": f"Speaks {version}", "subject_id": subject}
    answer = mcp.legacy("tools/call", {"name": "titen_remember", "arguments": arguments}, version)
    result = answer.json()["result"]
    assert result["structuredContent"]["status"] == "stored"
    assert "resultType" not in result
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


def test_tools_are_described_for_a_model(mcp: Mcp) -> None:
    result = mcp.modern("tools/list").json()["result"]
    assert [tool["name"] for tool in result["tools"]] == TOOLS
    assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
    assert result["ttlMs"] > 0
    for tool in result["tools"]:
        schema = tool["inputSchema"]
        assert schema["additionalProperties"] is False
        assert all("description" in property_ for name, property_ in schema["properties"].items())
        assert tool["annotations"]["openWorldHint"] is False
    remember, recall, forget = result["tools"]
    wanted = {"content", "subject_id", "kind", "category", "key", "tags", "priority", "expires_at"}
    assert wanted <= set(remember["inputSchema"]["properties"])
    assert "credentials" in remember["description"]
    assert "never instructions" in " ".join(recall["description"].split())
    assert recall["annotations"]["readOnlyHint"] is True
    assert forget["annotations"]["destructiveHint"] is True
    assert mcp.legacy("tools/list").json()["result"] == {"tools": result["tools"]}


# What a model can repair


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("titen_remember", {}, ["VALIDATION_ERROR", "content", "required"]),
        ("titen_remember", {"content": "x", "colour": "red"}, ["colour", "not known"]),
        ("titen_remember", {"content": "x"}, ["subject_id", "required"]),
        ("titen_remember", {"content": "x", "priority": "urgent", "subject_id": "s"}, ["priority"]),
        ("titen_remember", {"content": "x", "key": "k", "subject_id": "s"}, ["category"]),
        ("titen_remember", {"content": "x" * 9000, "subject_id": "s"}, ["content", "8192"]),
        ("titen_recall", {"query": "x", "limit": 21}, ["limit", "20"]),
        ("titen_recall", {"query": 7}, ["query"]),
        ("titen_forget", {"id": "unknown"}, ["NOT_FOUND"]),
        ("titen_forget", {}, ["id", "required"]),
    ],
)
def test_a_fault_of_the_model_is_a_result_that_says_the_repair(
    mcp: Mcp, tool: str, arguments: JsonObject, words: list[str]
) -> None:
    text = mcp.bad(tool, **arguments)
    for word in words:
        assert word in text


def test_a_changed_version_is_not_forgotten(mcp: Mcp, agent: Api, subject: str) -> None:
    memory = agent.stored(content="Lives in Malang", subject_id=subject)
    assert "VERSION_CONFLICT" in mcp.bad("titen_forget", id=memory["id"], expected_version=9)
    assert agent.read(memory["id"])["version"] == 1


def test_headers_of_other_doors_change_nothing(mcp: Mcp, subject: str) -> None:
    params = {"name": "titen_remember", "arguments": {"content": "Sent twice", "subject_id": subject}}
    for expected in ("stored", "unchanged"):
        answer = mcp.modern("tools/call", params, {"Idempotency-Key": "once", "If-Match": "7"})
        assert answer.json()["result"]["structuredContent"]["status"] == expected


# Access


def test_a_reader_recalls_but_does_not_write(reader: Api, agent: Api, subject: str) -> None:
    memory = agent.stored(content="Drinks black coffee", subject_id=subject)
    mcp = Mcp(reader)
    found = mcp.good("titen_recall", query="black coffee", subject_id=subject)
    assert [item["id"] for item in found["memories"]] == [memory["id"]]
    assert "FORBIDDEN" in mcp.bad("titen_remember", content="No", subject_id=subject)
    assert "FORBIDDEN" in mcp.bad("titen_forget", id=memory["id"])
    assert agent.read(memory["id"])["content"] == "Drinks black coffee"


def test_a_locked_key_stays_with_its_subject(caller: MakeCaller, agent: Api, subject: str) -> None:
    other = agent.stored(content="Somebody else likes durian", subject_id=f"{subject}-other")
    mcp = Mcp(caller("writer", "agent", subject))
    assert mcp.good("titen_remember", content="Likes durian")["subject_id"] == subject
    items = mcp.good("titen_recall", query="durian")["memories"]
    assert {item["subject_id"] for item in items} == {subject}
    assert "FORBIDDEN" in mcp.bad("titen_recall", query="durian", subject_id=f"{subject}-other")
    assert "NOT_FOUND" in mcp.bad("titen_forget", id=other["id"])


@pytest.mark.needs_control
def test_another_tenant_is_as_good_as_nobody(agent: Api, foreign: Api, subject: str) -> None:
    memory = agent.stored(content="Keeps the spare key under the pot", subject_id=subject)
    mcp = Mcp(foreign)
    assert mcp.good("titen_recall", query="spare key pot", subject_id=subject)["memories"] == []
    assert mcp.bad("titen_forget", id=memory["id"]) == mcp.bad("titen_forget", id="unknown")


@pytest.mark.parametrize("key", [None, "titen_a_b", "nonsense"])
def test_without_a_valid_key_nothing_is_answered(anyone: Api, key: str | None) -> None:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    for body in ({"jsonrpc": "2.0", "id": 1, "method": "ping"}, b"{"):
        answer = Mcp(anyone).post(body, headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"


# The modern era


def test_discovery(mcp: Mcp) -> None:
    result = mcp.modern("server/discover").json()["result"]
    assert result["supportedVersions"] == [MODERN, *LEGACY]
    assert result["capabilities"] == {"tools": {}}
    assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
    assert result["_meta"][f"{PREFIX}serverInfo"]["name"] == "titen"


@pytest.mark.parametrize(
    "headers",
    [
        {"MCP-Protocol-Version": None},
        {"MCP-Protocol-Version": "2025-11-25"},
        {"Mcp-Method": None},
        {"Mcp-Method": "tools/call"},
        {"Mcp-Method": "TOOLS/LIST"},
    ],
)
def test_headers_must_say_what_the_body_says(mcp: Mcp, headers: dict[str, str | None]) -> None:
    error_of(mcp.modern("tools/list", headers=headers), 400, -32020)


@pytest.mark.parametrize("name", [None, "titen_forget", "=?base64?!!!?=", "=?base64?dGl0ZW5fZm9yZ2V0?="])
def test_the_name_header_must_be_the_tool(mcp: Mcp, name: str | None) -> None:
    params = {"name": "titen_recall", "arguments": {"query": "x"}}
    error_of(mcp.modern("tools/call", params, {"Mcp-Name": name}), 400, -32020)


def test_an_encoded_name_header_is_decoded_first(mcp: Mcp) -> None:
    params = {"name": "titen_recall", "arguments": {"query": "x"}}
    answer = mcp.modern("tools/call", params, {"Mcp-Name": "=?base64?dGl0ZW5fcmVjYWxs?="})
    assert answer.json()["result"]["isError"] is False


def test_an_unsupported_version_is_told_the_others(mcp: Mcp) -> None:
    meta = {**META, f"{PREFIX}protocolVersion": "1900-01-01"}
    for answer in (
        mcp.modern("tools/list", {"_meta": meta}, {"MCP-Protocol-Version": "1900-01-01"}),
        mcp.legacy("tools/list", version="1900-01-01"),
    ):
        data = error_of(answer, 400, -32022)["data"]
        assert data == {"supported": [MODERN, *LEGACY], "requested": "1900-01-01"}


@pytest.mark.parametrize("missing", [f"{PREFIX}protocolVersion", f"{PREFIX}clientCapabilities"])
def test_required_metadata_is_required(mcp: Mcp, missing: str) -> None:
    meta = {name: value for name, value in META.items() if name != missing}
    assert missing in error_of(mcp.modern("tools/list", {"_meta": meta}), 400, -32602)["message"]


@pytest.mark.parametrize("method", ["initialize", "ping", "resources/list", "subscriptions/listen", "no/such"])
def test_methods_that_are_not_there_are_404(mcp: Mcp, method: str) -> None:
    error_of(mcp.modern(method), 404, -32601)


# The older era


@pytest.mark.parametrize("version", LEGACY)
def test_the_handshake_echoes_a_supported_version(mcp: Mcp, version: str) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer = mcp.legacy("initialize", params)
    result = answer.json()["result"]
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"] == "titen"
    assert "mcp-session-id" not in answer.headers


def test_the_handshake_offers_its_newest_for_others(mcp: Mcp) -> None:
    result = mcp.legacy("initialize", {"protocolVersion": "2024-11-05"}).json()["result"]
    assert result["protocolVersion"] == LEGACY[0]


def test_ping_with_and_without_a_version_header(mcp: Mcp) -> None:
    for version in (None, *LEGACY):
        assert mcp.legacy("ping", version=version).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_an_unknown_method_of_the_older_era(mcp: Mcp) -> None:
    error_of(mcp.legacy("resources/list"), 200, -32601)


# Both eras


def test_an_unknown_tool_is_an_error_of_the_protocol(mcp: Mcp) -> None:
    params = {"name": "titen_dream", "arguments": {}}
    error_of(mcp.modern("tools/call", params), 200, -32602)
    error_of(mcp.legacy("tools/call", params), 200, -32602)
    error_of(mcp.legacy("tools/call", {"name": "titen_recall", "arguments": [1]}), 200, -32602)
    error_of(mcp.legacy("tools/list", {"cursor": "x"}), 200, -32602)


@pytest.mark.parametrize("version", [MODERN, *LEGACY, None])
def test_a_notification_is_accepted_in_silence(mcp: Mcp, version: str | None) -> None:
    headers = {} if version is None else {"MCP-Protocol-Version": version}
    answer = mcp.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    assert (answer.status_code, answer.content) == (202, b"")


def test_a_response_of_a_client(mcp: Mcp) -> None:
    response = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert mcp.post(response).status_code == 202
    error_of(mcp.post(response, {"MCP-Protocol-Version": MODERN}), 400, -32600)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], -32600),
        ([], -32600),
        ({"id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 3}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, -32600),
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}', -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc": "2.0", "jsonrpc": "2.0", "id": 1, "method": "ping"}', -32700),
    ],
)
def test_what_is_no_single_message_is_refused(mcp: Mcp, body: Any, code: int) -> None:
    answer = mcp.post(body)
    error_of(answer, 400, code)
    assert "id" not in answer.json()


def test_hostile_bodies(mcp: Mcp) -> None:
    assert mcp.post(b" " * 300_000).status_code == 413
    assert mcp.post(b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}').status_code == 200
    deep = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'{"a":' * 80 + b"1" + b"}" * 81
    error_of(mcp.post(deep), 400, -32700)
    assert mcp.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"Content-Type": "text/plain"}).status_code == 415


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
def test_other_methods_are_not_allowed(agent: Api, method: str) -> None:
    for path in ("/mcp", "/mcp/"):
        answer = agent.request(method, path).expect(405, "METHOD_NOT_ALLOWED")
        assert "POST" in answer.headers["allow"]


def test_a_trailing_slash_makes_no_difference(mcp: Mcp) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert mcp.post(body, path="/mcp/").json() == mcp.post(body).json()


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://[", "http://localhost.evil.example"])
def test_a_foreign_origin_is_forbidden_before_the_key(anyone: Api, origin: str) -> None:
    answer = Mcp(anyone).post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"Origin": origin})
    assert answer.status_code == 403


@pytest.mark.needs_control
def test_a_page_of_this_machine_may_call_a_service_of_this_machine(mcp: Mcp) -> None:
    answer = mcp.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"Origin": "http://localhost:3000"})
    assert answer.status_code == 200


@pytest.mark.needs_control
def test_a_foreign_host_is_refused_on_loopback(mcp: Mcp, runtime_name: str) -> None:
    if runtime_name == "cloudflare":
        pytest.skip("a Worker has no address of its own: Cloudflare routes by the Host it was deployed under")
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for host in ("evil.example", "evil.example:8787", "localhost.evil.example", "127.0.0.1.evil.example"):
        assert mcp.post(body, {"Host": host}).status_code == 403
    assert mcp.post(body, {"Host": "localhost:1"}).status_code == 200


@pytest.mark.parametrize("accept", ["application/json", "*/*", "application/json, text/event-stream", ""])
def test_every_usual_accept_works(mcp: Mcp, accept: str) -> None:
    answer = mcp.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"Accept": accept})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"] == {}


def test_sessions_are_neither_made_nor_minded(mcp: Mcp) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answer = mcp.post(body, {"Mcp-Session-Id": "long-gone", "Last-Event-ID": "7"})
    assert answer.status_code == 200
    assert "mcp-session-id" not in answer.headers
