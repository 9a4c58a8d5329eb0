"""The route table: every endpoint of the service, one line each."""

from titen_core.http.routes import keys, memories, portability, search, service

__all__ = ["ROUTES"]

ROUTES = (*memories.ROUTES, *search.ROUTES, *portability.ROUTES, *keys.ROUTES, *service.ROUTES)
