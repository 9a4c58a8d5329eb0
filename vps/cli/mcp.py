"""`titen mcp`: the three tools over stdio."""

import asyncio
import json
import sys
from collections.abc import Mapping

import click
import httpx

from titen_core.content import clean_name
from titen_core.http.failures import named_failure
from titen_core.http.messages import Request
from titen_core.mcp.calls import Caller
from titen_core.mcp.door import respond
from titen_core.models import Principal, PrincipalKind, Role, Tenant
from vps.cli.first_start import prepare
from vps.cli.options import say, store_options, tenant_option
from vps.compose import Runtime, open_runtime
from vps.faults import EXIT_USAGE, Fault
from vps.housekeeping import Housekeeping
from vps.local import chosen_tenant
from vps.logs import log_line, take_over_logging
from vps.mcp_stdio import Door, lines_of, relay
from vps.settings import Settings, load_settings

__all__ = ["mcp"]

PRINCIPAL = "mcp"
TIMEOUT_S = 120.0


@click.command
@store_options
@tenant_option
@click.option("--subject", metavar="ID", help="Whose memories these are: the tools then need no subject_id.")
def mcp(db: str | None, config: str | None, tenant: str | None, subject: str | None) -> None:
    """Speak MCP on stdin and stdout, for clients that start their servers.

    With TITEN_MCP_URL and TITEN_API_KEY it passes everything on to that service. Without, it works on the
    store's file itself, which it creates if it is missing, as an agent that may read and write.

    \b
    Example:
      titen mcp --db ~/.titen/titen.db --subject me
      TITEN_MCP_URL=https://titen.example/mcp TITEN_API_KEY=KEY titen mcp
    """
    settings = load_settings({"db": db}, config)
    if settings.mcp_url is None:
        asyncio.run(_here(settings, tenant, None if subject is None else clean_name("subject", subject)))
    elif db or tenant or subject:
        raise Fault("TITEN_MCP_URL is set, and a key knows its tenant and subject; give no --db.", EXIT_USAGE)
    else:
        asyncio.run(_bridge(settings.mcp_url, settings))


async def _bridge(url: str, settings: Settings) -> None:
    if settings.api_key is None:
        raise Fault("TITEN_MCP_URL needs TITEN_API_KEY as well.", EXIT_USAGE)
    keyed = {"Authorization": f"Bearer {settings.api_key}", "Accept": "application/json, text/event-stream"}
    say(f"Titen passes MCP on to {url}.", as_json=True)
    async with httpx.AsyncClient(headers=keyed, timeout=TIMEOUT_S) as client:

        async def door(message: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
            try:
                response = await client.post(url, content=message, headers=dict(headers))
            except httpx.TransportError as failure:
                return 503, _unreachable(url, failure)
            return response.status_code, response.content

        await relay(lines_of(sys.stdin.buffer), door, sys.stdout.buffer)


async def _here(settings: Settings, tenant_id: str | None, subject_id: str | None) -> None:
    take_over_logging()
    await prepare(settings.db, _tell_nobody)  # stdout is the protocol's, and clients keep stderr in a log
    wake = asyncio.Event()
    async with open_runtime(settings, wake=wake.set) as runtime:
        tenant = await chosen_tenant(runtime.kernel.store.keys, tenant_id)
        housekeeping = Housekeeping(runtime.kernel, wake, log_line)
        housekeeping.start()
        say(f"Titen speaks MCP over the store {settings.db}.", as_json=True)
        try:
            await relay(lines_of(sys.stdin.buffer), _door(runtime, _principal(tenant, subject_id)), sys.stdout.buffer)
        finally:
            await housekeeping.stop()


def _door(runtime: Runtime, principal: Principal) -> Door:
    async def door(message: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        caller = Caller(runtime.kernel, principal, runtime.kernel.new_id())
        try:
            response = await respond(caller, Request("POST", "/mcp", headers=headers, body=message))
        except Exception as failure:
            named = named_failure(failure, runtime.kernel)
            if named is None:
                log_line({"event": "mcp_failed", "error": type(failure).__name__})
                return 500, b""
            return named.status, _error(named.code, named.message)
        return response.status, response.body if isinstance(response.body, bytes) else b""

    return door


def _principal(tenant: Tenant, subject_id: str | None) -> Principal:
    """Whoever started the process holds the file; the tools act as an agent all the same."""
    return Principal(
        tenant_id=tenant.id,
        tenant_num=tenant.num,
        key_id="",
        principal_id=PRINCIPAL,
        name=PRINCIPAL,
        kind=PrincipalKind.AGENT,
        role=Role.WRITER,
        subject_id=subject_id,
        expires_at_ms=None,
    )


def _tell_nobody(sentence: str) -> None:
    del sentence


def _unreachable(url: str, failure: httpx.TransportError) -> bytes:
    return _error("UNREACHABLE", f"{url} cannot be reached ({type(failure).__name__}); check that it runs.")


def _error(code: str, message: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": message}}).encode()
