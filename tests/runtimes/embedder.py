"""The suite's view of the embedding server: its faults as the words of `Embedder`."""

import importlib
from contextlib import ExitStack
from typing import Any

import httpx

__all__ = ["EmbeddingServerControl", "start_embedder"]


class EmbeddingServerControl:
    """Sets faults over the server's own `POST /control`."""

    def __init__(self, base_url: str) -> None:
        self._root = base_url.removesuffix("/v1")

    def heal(self) -> None:
        self._control({"fault": None})

    def refuse(self, status: int, *, retry_after: str | None = None, times: int | None = None) -> None:
        self._control({"fault": "status", "status": status, "retry_after": retry_after, "times": times})

    def stall(self, seconds: float) -> None:
        self._control({"fault": "slow", "seconds": seconds})

    def distort(self, how: str) -> None:
        self._control({"fault": how})

    def requests(self) -> int:
        answer = httpx.get(f"{self._root}/control", trust_env=False)
        return int(answer.raise_for_status().json()["requests"])

    def _control(self, order: dict[str, Any]) -> None:
        httpx.post(f"{self._root}/control", json=order, trust_env=False).raise_for_status()


def start_embedder(resources: ExitStack) -> tuple[EmbeddingServerControl, str]:
    """Start a server that ends with `resources`; its control, and its base URL for the service."""
    module = importlib.import_module("tests.runtimes.embedding_server")
    server = resources.enter_context(module.EmbeddingServer())
    return EmbeddingServerControl(server.base_url), server.base_url
