"""The pages on connecting agents and on Python: every snippet is read, and what it describes is done."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.runtimes.chat_server import ChatServer
from tests.vps.conftest import make_store
from tests.vps.process import ROOT, environment, running, titen
from titen_core.mcp.tools import listed_tools

GUIDE = (ROOT / "docs/how-to/connect-an-agent.md").read_text(encoding="utf-8")
PYTHON = (ROOT / "docs/how-to/use-from-python.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOOLS = [tool["name"] for tool in listed_tools()]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
CUT = "-- next block --"


@dataclass(frozen=True)
class Server:
    """What a client is told: an address with headers, or a command with its environment."""

    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A running service, and the values that take the places of the placeholders."""

    url: str
    api_key: str
    directory: Path

    def filled(self, text: str) -> str:
        text = text.replace("http://127.0.0.1:8787", self.url).replace("titen_KEY", self.api_key)
        text = re.sub(r"\$\{(?:env:)?TITEN_API_KEY\}|\$TITEN_API_KEY", self.api_key, text)
        return text.replace("/path/to/titen.db", str(self.directory / "mine.db"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("connecting")
    store = make_store(directory)
    chat = ChatServer()
    chat.say(json.dumps({"memories": [{"action": "ADD", "content": "The user moved to Yogyakarta in March."}]}))
    model = {"TITEN_CHAT_BASE_URL": chat.base_url, "TITEN_CHAT_MODEL": "scripted"}
    with running("serve", "--db", store.db, "--port", "0", env=model) as service:
        yield Place(service.url, store.api_key, directory)
    chat.close()


def blocks(language: str, page: str = GUIDE) -> list[str]:
    return [code for kind, code in BLOCK.findall(page) if kind == language]


def command_lines() -> list[list[str]]:
    return [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]


def servers() -> list[Server]:
    """Every server of the page, from JSON, TOML and command lines; an entry has no member that is not known here."""
    entries = [json.loads(code)["mcpServers"]["titen"] for code in blocks("json")]
    entries += [tomllib.loads(code)["mcp_servers"]["titen"] for code in blocks("toml")]
    found = [_of_file(entry) for entry in entries]
    return found + [_of_command(words) for words in command_lines() if words[0] in {"claude", "codex"}]


def _of_file(entry: dict[str, Any]) -> Server:
    kind = entry.pop("type", None)
    assert kind in (None, "http" if "url" in entry else "stdio")
    if "url" in entry:
        headers = entry.pop("headers", {})
        if variable := entry.pop("bearer_token_env_var", None):
            headers = {"Authorization": f"Bearer ${{{variable}}}"}
        server = Server(url=entry.pop("url"), headers=headers)
    else:
        server = Server(command=(entry.pop("command"), *entry.pop("args")), env=entry.pop("env", {}))
    assert entry == {}
    return server


def _of_command(words: list[str]) -> Server:
    assert words[1:3] == ["mcp", "add"]
    if "--" in words:
        return Server(command=tuple(words[words.index("--") + 1 :]))
    (url,) = [word for word in words if word.startswith("http://")]
    if words[0] == "codex":
        variable = words[words.index("--bearer-token-env-var") + 1]
        return Server(url=url, headers={"Authorization": f"Bearer ${{{variable}}}"})
    name, _, value = words[words.index("--header") + 1].partition(": ")
    return Server(url=url, headers={name: value})


def test_each_client_has_both_ways() -> None:
    sections = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", GUIDE, re.MULTILINE))
    for client in ("Claude Code", "Claude Desktop", "Cursor", "Codex", "Any MCP client"):
        assert "http://127.0.0.1:8787/mcp" in sections[client], client
        assert "/path/to/titen" in sections[client], client
    assert {kind for kind, _ in BLOCK.findall(GUIDE)} == {"sh", "json", "toml", "text"}
    assert len(servers()) == 11
    for tool in TOOLS:
        assert tool in blocks("text")[0]


def test_every_address_answers_with_the_tools(place: Place) -> None:
    told = [server for server in servers() if server.url]
    assert len(told) == 5
    for server in told:
        assert server.url is not None
        headers = {name: place.filled(value) for name, value in server.headers.items()}
        with httpx.Client(headers=headers, trust_env=False) as http:
            url = place.filled(server.url)
            hello, listed = (http.post(url, json=message).json() for message in (_hello(), _list()))
        assert hello["result"]["protocolVersion"] == HELLO["protocolVersion"]
        assert [tool["name"] for tool in listed["result"]["tools"]] == TOOLS


def test_every_command_speaks_and_lists_the_tools(place: Place) -> None:
    started = {(server.command, tuple(server.env.items())) for server in servers() if server.command}
    assert len(started) == 2  # the same command for all clients, and the bridge
    for command, variables in started:
        program, *arguments = [place.filled(word) for word in command]
        assert program == "/path/to/titen"
        ran = titen(
            *arguments,
            env={name: place.filled(value) for name, value in variables},
            stdin="".join(f"{json.dumps(message)}\n" for message in (_hello(), _list())),
        )
        assert ran.code == 0, ran.err
        hello, listed = (json.loads(line) for line in ran.out.splitlines())
        assert hello["result"]["protocolVersion"] == HELLO["protocolVersion"]
        assert [tool["name"] for tool in listed["result"]["tools"]] == TOOLS


def test_the_other_commands_run(place: Place) -> None:
    key, request = [words for words in command_lines() if words[0] in {"titen", "curl"}]
    made = titen(*key[1:], "--db", place.directory / "titen.db", "--json")
    assert made.code == 0, made.err
    asked = [place.filled(word) for word in request]
    answer = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout
    assert [tool["name"] for tool in json.loads(answer)["result"]["tools"]] == TOOLS
    assert {words[0] for words in command_lines()} == {"titen", "claude", "codex", "curl"}


def test_the_python_page_prints_what_it_shows(place: Place) -> None:
    script = place.directory / "page.py"
    script.write_text(f"\nprint({CUT!r})\n".join(blocks("python", PYTHON)), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=place.directory,
        env=environment({"TITEN_URL": place.url, "TITEN_API_KEY": place.api_key}),
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split(f"{CUT}\n") == blocks("text", PYTHON)


def _hello() -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}


def _list() -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
