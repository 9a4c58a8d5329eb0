"""The official Python client: `official.py TARGET MODE`, answers as JSON on stdout.

TARGET is JSON: {"url", "key"} or {"command", "args", "env"}; MODE is one of the client's connection modes.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

CONTENT = "Prefers the night train to Surabaya"


async def main(target: dict[str, Any], mode: str) -> dict[str, Any]:
    async with AsyncExitStack() as opened:
        client = await opened.enter_async_context(Client(await _server(target, opened), mode=mode))
        listed = await client.list_tools()
        stored = await _call(client, "titen_remember", {"content": CONTENT, "subject_id": target["subject"]})
        found = await _call(client, "titen_recall", {"query": "night train", "subject_id": target["subject"]})
        gone = await _call(client, "titen_forget", {"id": stored["id"]})
        return {
            "version": client.protocol_version,
            "tools": [tool.name for tool in listed.tools],
            "stored": stored,
            "found": found,
            "gone": gone,
        }


async def _server(target: dict[str, Any], opened: AsyncExitStack) -> Any:
    if "command" in target:
        return StdioServerParameters(command=target["command"], args=target["args"], env=target["env"])
    keyed = httpx2.AsyncClient(headers={"Authorization": f"Bearer {target['key']}"}, timeout=60)
    return streamable_http_client(target["url"], http_client=await opened.enter_async_context(keyed))


async def _call(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.is_error or result.structured_content is None:
        raise RuntimeError(f"{tool}: {result.content}")
    return dict(result.structured_content)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2]))))
