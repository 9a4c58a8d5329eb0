"""Work on a store's own file, answered in the shapes of the HTTP API."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from titen_core.content import clean_query, refusal
from titen_core.errors import SqlError
from titen_core.http.decoding import decode_body
from titen_core.http.messages import Request
from titen_core.http.schemas.requests import RememberBody, SearchBody
from titen_core.http.views import channels_view, item_view, scope_view, written_view
from titen_core.kernel import Kernel
from titen_core.models import Access, Scope, Tenant
from titen_core.recall import recall
from titen_core.remember import remember
from titen_core.sql.keys import Keys
from vps.compose import Runtime, open_runtime, operator_access
from vps.faults import Fault
from vps.settings import Settings
from vps.storefile import sql_fault

__all__ = ["chosen_tenant", "open_tenant", "recall_here", "remember_here"]


@asynccontextmanager
async def open_tenant(settings: Settings, tenant_id: str | None) -> AsyncIterator[tuple[Runtime, Access]]:
    """The runtime and the operator's access to one tenant. Raises Fault, also for SqlErrors inside."""
    try:
        async with open_runtime(settings, patient=True) as runtime:
            yield runtime, operator_access(await chosen_tenant(runtime.kernel.store.keys, tenant_id))
    except SqlError as failure:
        raise sql_fault(failure, settings.db) from None


async def chosen_tenant(keys: Keys, tenant_id: str | None) -> Tenant:
    """The tenant named, or the only one there is. Raises Fault."""
    tenants = await keys.tenants()
    if tenant_id is None and len(tenants) == 1:
        return tenants[0]
    if tenant_id is None and tenants:
        raise Fault("The store has several tenants; name one with --tenant (`titen tenant list` shows them).")
    if tenant_id is None:
        raise Fault("The store has no tenant; make one with `titen init` or `titen tenant create`.")
    found = next((each for each in tenants if each.id == tenant_id), None)
    if found is None:
        raise Fault(f"The store has no tenant {tenant_id}; `titen tenant list` shows those it has.")
    return found


async def remember_here(kernel: Kernel, access: Access, body: Mapping[str, Any]) -> dict[str, Any]:
    """As `POST /v1/memories`. Raises ValidationError."""
    wanted = decode_body(_request(body), RememberBody)
    if wanted.subject_id is None:
        raise refusal("subject_id", "is required; give --subject")
    return {"data": written_view(await remember(kernel, access, wanted.record(wanted.subject_id)))}


async def recall_here(kernel: Kernel, access: Access, body: Mapping[str, Any]) -> dict[str, Any]:
    """As `POST /v1/memories/search`. Raises ValidationError."""
    wanted = decode_body(_request(body), SearchBody)
    scope = Scope(wanted.subject_id, wanted.agent_id, wanted.run_id)
    query = clean_query(wanted.query)
    found = await recall(kernel, access, scope, wanted.filters.filters(), query=query, limit=wanted.limit)
    meta = {"scope": scope_view(scope), **channels_view(found.channels)}
    return {"data": [item_view(item) for item in found.items], "meta": meta}


def _request(body: Mapping[str, Any]) -> Request:
    return Request("POST", "/", headers={"content-type": "application/json"}, body=json.dumps(body).encode())
