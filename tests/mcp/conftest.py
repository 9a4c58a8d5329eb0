"""The runtimes of the contract suite, the same way chosen; each with a key, and a proxy that adds it."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.contract.conftest import pytest_generate_tests, runtime
from tests.mcp.proxy import bearer_proxy
from tests.runtimes.base import Runtime

__all__ = ["Endpoint", "pytest_generate_tests", "runtime"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a client finds Titen's MCP endpoint: with the key, or through a proxy that adds it."""

    url: str
    key: str
    keyless_url: str

    def target(self, subject: str) -> dict[str, str]:
        """In the shape that the scripts of `clients/` take."""
        return {"url": self.url, "key": self.key, "subject": subject}


@pytest.fixture(scope="session")
def endpoint(runtime: Runtime) -> Iterator[Endpoint]:
    key = runtime.new_tenant().admin.api_key
    with bearer_proxy(runtime.base_url, key) as proxy:
        yield Endpoint(f"{runtime.base_url}/mcp", key, f"{proxy}/mcp")


@pytest.fixture
def subject() -> str:
    """A subject that no other test uses."""
    return f"subject-{uuid.uuid4().hex[:12]}"
