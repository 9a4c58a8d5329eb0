"""`titen mcp`: JSON-RPC and nothing else on stdout, over a store's file or a service."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.vps.process import Ran, running, titen

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}


def request(number: int | str, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(number: int | str, tool: str, era: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    return request(number, "tools/call", name=tool, arguments=arguments, **({} if era is None else {"_meta": era}))


def speak(*said: Any, arguments: tuple[str | Path, ...] = (), env: dict[str, str] | None = None) -> Ran:
    """One session: messages in, its end, and what came out."""
    lines = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in said]
    ran = titen("mcp", *arguments, stdin="".join(f"{line}\n" for line in lines), env=env)
    assert ran.code == 0, ran.err
    return ran


def answers(ran: Ran) -> list[Any]:
    """Every line of stdout, each of which must be JSON-RPC."""
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in found)
    return found


def test_a_client_of_either_era_remembers_recalls_and_forgets(tmp_path: Path) -> None:
    store = ("--db", tmp_path / "new" / "titen.db", "--subject", "user_1")
    ran = speak(
        request(1, "initialize", **HELLO),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("list", "tools/list"),
        call(2, "titen_remember", content="Suka kereta malam"),
        call(3, "titen_recall", META, query="kereta"),
        request("found", "server/discover", _meta=META),
        arguments=store,
    )
    hello, tools, stored, recalled, found = answers(ran)
    assert hello["result"]["protocolVersion"] == "2025-11-25"
    assert [tool["name"] for tool in tools["result"]["tools"]] == ["titen_remember", "titen_recall", "titen_forget"]
    memory = stored["result"]["structuredContent"]
    assert (memory["subject_id"], memory["author"], memory["verified"]) == ("user_1", "agent", False)
    assert [item["id"] for item in recalled["result"]["structuredContent"]["memories"]] == [memory["id"]]
    assert (recalled["id"], recalled["result"]["resultType"]) == (3, "complete")
    assert MODERN in found["result"]["supportedVersions"]
    assert "over the store" in ran.err
    assert (tmp_path / "new" / "titen.db.admin-key").read_text().strip() not in ran.err
    forgotten, nothing = answers(
        speak(call(1, "titen_forget", id=memory["id"]), call(2, "titen_recall", query="kereta"), arguments=store)
    )
    assert forgotten["result"]["structuredContent"]["status"] == "deleted"
    assert nothing["result"]["structuredContent"]["memories"] == []


def test_hostile_lines_are_answered_and_the_next_one_works(tmp_path: Path) -> None:
    ran = speak(
        "not json",
        "[" * 100_000,
        "x" * 300_000,
        "[]",
        "",
        {"jsonrpc": "2.0", "id": 1, "method": "resources/list"},
        request(2, "ping"),
        arguments=("--db", tmp_path / "titen.db"),
    )
    found = answers(ran)
    assert [answer["error"]["code"] for answer in found[:-1]] == [-32700, -32700, -32700, -32600, -32601]
    assert found[-1] == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_a_fault_of_the_arguments_is_a_result_that_says_the_repair(tmp_path: Path) -> None:
    (answer,) = answers(speak(call(1, "titen_remember", content="x"), arguments=("--db", tmp_path / "titen.db")))
    assert answer["result"]["isError"] is True
    assert "subject_id" in answer["result"]["content"][0]["text"]


def test_it_bridges_to_a_service(tmp_path: Path) -> None:
    made = titen("init", "--db", tmp_path / "titen.db", "--json").document
    with running("serve", "--db", tmp_path / "titen.db", "--port", "0") as service:
        place = {"TITEN_MCP_URL": f"{service.url}/mcp", "TITEN_API_KEY": made["api_key"]}
        ran = speak(
            call("é 1", "titen_remember", META, content="Likes tea", subject_id="user_1"),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            call(2, "titen_recall", query="tea"),
            env=place,
        )
        stored, recalled = answers(ran)
        assert stored["id"] == "é 1"
        found = recalled["result"]["structuredContent"]["memories"]
        assert [item["id"] for item in found] == [stored["result"]["structuredContent"]["id"]]
        assert "passes MCP on" in ran.err
        assert made["api_key"] not in ran.err + ran.out
        (refused,) = answers(speak(request(1, "tools/list"), env={**place, "TITEN_API_KEY": "titen_no_key"}))
        assert "UNAUTHENTICATED" in refused["error"]["message"]


def test_a_service_that_is_away_is_an_error_of_each_request() -> None:
    place = {"TITEN_MCP_URL": "http://127.0.0.1:9/mcp", "TITEN_API_KEY": "titen_a_b"}
    (answer,) = answers(speak(request(1, "tools/list"), env=place))
    assert "cannot be reached" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("env", "arguments", "word"),
    [
        ({"TITEN_MCP_URL": "http://127.0.0.1:9/mcp"}, (), "TITEN_API_KEY"),
        ({"TITEN_MCP_URL": "ftp://x", "TITEN_API_KEY": "k"}, (), "http://"),
        ({"TITEN_MCP_URL": "http://127.0.0.1:9/mcp", "TITEN_API_KEY": "k"}, ("--subject", "x"), "--db"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(env: dict[str, str], arguments: tuple[str, ...], word: str) -> None:
    ran = titen("mcp", *arguments, env=env)
    assert (ran.code, ran.out) == (2, "")
    assert word in ran.err
