"""Who may speak to the MCP endpoint at all, before any key is looked at: protection against DNS rebinding.

2026-07-28, "Streamable HTTP": Security & Endpoint; 2025-11-25, "Transports": Security Warning.
"""

from collections.abc import Mapping, Set
from urllib.parse import urlsplit

from titen_core.errors import Forbidden, MethodNotAllowed
from titen_core.http.messages import Request

__all__ = ["LOOPBACK_HOSTS", "guard"]

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


def guard(request: Request, origins: Set[str], hosts: Set[str] | None) -> None:
    """Raise Forbidden for a foreign Origin or Host, MethodNotAllowed for anything but POST. `hosts` None: any Host."""
    _check_origin(request.headers, origins)
    if hosts is not None and _hostname(f"//{request.headers.get('host', '')}") not in hosts:
        raise Forbidden(
            "This service listens on the loopback address only: call it as localhost,"
            " or add the name that a proxy passes on to TITEN_PUBLIC_HOSTS."
        )
    if request.method != "POST":
        raise MethodNotAllowed("The MCP endpoint answers POST only.", details={"allow": ["OPTIONS", "POST"]})


def _check_origin(headers: Mapping[str, str], origins: Set[str]) -> None:
    """Programs send no Origin. A page may call if it is configured, or if page and service are both on this machine."""
    origin = headers.get("origin")
    if origin is None or origin in origins:
        return
    local = _hostname(origin) in LOOPBACK_HOSTS and _hostname(f"//{headers.get('host', '')}") in LOOPBACK_HOSTS
    if not local:
        raise Forbidden("This Origin may not call the MCP endpoint; add it to TITEN_CORS_ORIGINS if it should.")


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
