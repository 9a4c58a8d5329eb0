"""The route table: every endpoint of the service, one line each."""

from titen_core.http.routes import digest, keys, memories, portability, search, service, synapse

__all__ = ["ROUTES"]

ROUTES = (
    *memories.ROUTES,
    *search.ROUTES,
    *digest.ROUTES,
    *portability.ROUTES,
    *keys.ROUTES,
    *synapse.ROUTES,
    *service.ROUTES,
)
